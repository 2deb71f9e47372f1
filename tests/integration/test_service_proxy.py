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
    made = [f"{CORE}/pods/{host}"]
    pod = stand_in(rig.plane, host, address)
    ref = {"kind": "Pod", "namespace": NAMESPACE, "name": host, "uid": pod["metadata"]["uid"]}
    ports = [{"name": "http", "port": RECONCILER_PORT}]
    # Without a selector: nobody else writes its endpoints.
    ensure(rig.api, f"{CORE}/services", {"metadata": {"name": RECONCILER_SERVICE}, "spec": {"ports": ports}})
    made.append(f"{CORE}/services/{RECONCILER_SERVICE}")
    subset = {"addresses": [{"ip": address, "targetRef": ref}], "ports": [{"name": "http", "port": port}]}
    ensure(rig.api, f"{CORE}/endpoints", {"metadata": {"name": RECONCILER_SERVICE}, "subsets": [subset]})
    yield leader, standby
    for path in made:
        rig.api.delete(f"{path}?gracePeriodSeconds=0")
    if rig.api.find(f"{CORE}/endpoints/{RECONCILER_SERVICE}"):
        rig.api.delete(f"{CORE}/endpoints/{RECONCILER_SERVICE}")


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

    def listed() -> list[str]:
        result = ask(reader, "nodes", "--json")
        return [one["name"] for one in json.loads(result.stdout)["items"]] if result.exit_code in (0, 1) else []

    wait_until("the leader's nodes by way of the standby", lambda: name in listed())
    wait_until("the standby is asked first", lambda: "leader" in standby.get("/readyz"))

    found = ask(reader, "recoveries", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["items"] == [], "what every replica knows the Service's one answers"

    unknown = ask(reader, "why", "no-such-node")
    assert unknown.exit_code == 2, unknown.output

    stranger = ask(control_plane.kubeconfig_for("stranger"), "nodes")
    assert stranger.exit_code == 3, stranger.output
    assert "services/proxy" in stranger.stderr
