"""The command line through a real API server's proxy: by the Service to any replica, then at the leader's pod, with the
rights that the documentation names and not without them.

The API server refuses addresses of loopback, and endpoints that are no pod of the namespace: so the replicas listen on
an address of this machine, and pods stand for them.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from console.main import main
from shared.names import NAMESPACE, RECONCILER_PORT, RECONCILER_SERVICE
from tests.cluster.plane import ControlPlane
from tests.integration.daemons import Reconciler
from tests.integration.rig import Rig
from tests.integration.test_ranktable import ensure
from tests.process import free_ports
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

CORE = f"/api/v1/namespaces/{NAMESPACE}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
READER = "proxy-reader"


def own_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def stand_in(plane: ControlPlane, name: str, address: str) -> dict[str, Any]:
    """A pod that no node runs and that has this address."""
    container = {
        "name": "reconciler",
        "image": "none",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "nodeSelector": {"no": "node"},
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    pod: dict[str, Any] = plane.api.post(f"{CORE}/pods", {"metadata": {"name": name}, "spec": spec})
    plane.api.merge_patch(
        f"{CORE}/pods/{name}/status", {"status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}}
    )
    return pod


@pytest.fixture
def replicas(rig: Rig) -> Iterator[tuple[Reconciler, Reconciler]]:
    """(leader, standby) behind the Service of deploy/, whose one endpoint is the standby."""
    address, host = own_address(), socket.gethostname()
    with socket.socket() as probe:
        try:
            probe.bind((address, RECONCILER_PORT))
        except OSError:
            pytest.skip(f"port {RECONCILER_PORT} is taken: the pod's proxy leads there")
    (port,) = free_ports(1)

    def replica(listen: int) -> Reconciler:
        made = rig.reconciler(settings={"http": {"listen": f"{address}:{listen}"}})
        made.url = f"http://{address}:{listen}"
        return made

    leader = replica(RECONCILER_PORT)
    leader.leads()
    standby = replica(port)
    standby.wait_for("HTTP on port")
    stood = [f"{CORE}/pods/{host}", f"{CORE}/services/{RECONCILER_SERVICE}", f"{SLICES}/{RECONCILER_SERVICE}"]
    _gone(rig, stood)  # also the Service that tests of deploy/ leave: by its selector it leads nowhere here
    pod = stand_in(rig.plane, host, address)
    ports = [{"name": "http", "port": RECONCILER_PORT}]
    # Without a selector: nobody else writes where it leads.
    rig.api.post(f"{CORE}/services", {"metadata": {"name": RECONCILER_SERVICE}, "spec": {"ports": ports}})
    rig.api.post(SLICES, leads_to(pod, address, port))
    yield leader, standby
    _gone(rig, stood)


def leads_to(pod: dict[str, Any], address: str, port: int) -> dict[str, Any]:
    """The EndpointSlice that a Service without a selector gets from whoever made it."""
    name = pod["metadata"]["name"]
    ref = {"kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": pod["metadata"]["uid"]}
    return {
        "metadata": {"name": RECONCILER_SERVICE, "labels": {"kubernetes.io/service-name": RECONCILER_SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": ref}],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }


def _gone(rig: Rig, paths: list[str]) -> None:
    for path in paths:
        if rig.api.find(path):
            rig.api.delete(f"{path}?gracePeriodSeconds=0")


@pytest.fixture
def reader(rig: Rig) -> Iterator[Path]:
    """A person's kubeconfig with the rights that docs/cli.md asks for and no others."""
    rules = [{"apiGroups": [""], "resources": ["services/proxy", "pods/proxy"], "verbs": ["get"]}]
    ensure(rig.api, f"{RBAC}/roles", {"metadata": {"name": READER}, "rules": rules})
    binding = {
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER}],
    }
    ensure(rig.api, f"{RBAC}/rolebindings", binding)
    yield rig.plane.kubeconfig_for(READER)
    for kind in ("rolebindings", "roles"):
        rig.api.delete(f"{RBAC}/{kind}/{READER}")


def ask(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--url", f"kubeconfig:{kubeconfig}"])


def test_any_replica_and_then_the_leader(
    rig: Rig, replicas: tuple[Reconciler, Reconciler], reader: Path, control_plane: ControlPlane
) -> None:
    _, standby = replicas
    rig.add_nodes(1)
    (name,) = rig.nodes

    said = [""]

    def listed() -> bool:
        result = ask(reader, "nodes", "--json")
        said[0] = f"exit code {result.exit_code}: {result.output}"
        return result.exit_code in (0, 1) and name in [one["name"] for one in json.loads(result.stdout)["items"]]

    try:
        wait_until("the leader's nodes by way of the standby", listed)
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {said[0]}\n{rig.tails()}") from None
    wait_until("the standby is asked first", lambda: "leader" in standby.get("/readyz"))

    found = ask(reader, "recoveries", "--json")
    assert found.exit_code in (0, 1), found.output  # other tests may have left recoveries, none of them here
    mine = [one for one in json.loads(found.stdout)["items"] if one["namespace"] == rig.namespace]
    assert mine == [], "what every replica knows the Service's one answers"

    unknown = ask(reader, "why", "no-such-node")
    assert unknown.exit_code == 2, unknown.output

    stranger = ask(control_plane.kubeconfig_for("stranger"), "nodes")
    assert stranger.exit_code == 3, stranger.output
    assert "services/proxy" in stranger.stderr
