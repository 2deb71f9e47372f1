"""Installed with its components, at work, and taken out again: the cluster is what it was before.

On a control plane of its own: this removes what other tests need.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.lab.children import NPU_WARDEN
from console.lab.cluster.crds import definitions
from shared.names import API_GROUP, CONDITION, ISOLATION_ANNOTATION, NAMESPACE
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, cert_manager, kubectl, render
from tests.integration.checks import home
from tests.integration.installation import controllers_of
from tests.integration.reports import chip_fault, say
from tests.integration.rig import Rig
from tests.integration.test_single_pods import NAME, workload
from tests.redis_server import RedisServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMPONENTS = ("ranktable", "drill", "evidence", "webhook", "redis-tls", "redis-tls-cert-manager")
OTHERS = ("mindx-dl", "volcano-system", "cert-manager")
PASSING = ("events", "leases", "pods.metrics", "componentstatuses")
"""What comes and goes by itself."""
LEDGER = "ConfigMap volcano-system/vcjob-fault-npu-cm"
"""Kept on purpose: AscendJobs that run rely on it."""


@pytest.fixture
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Another one than the other tests have."""
    plane = ControlPlane(control_plane.binaries, tmp_path_factory.mktemp("uninstalled"))
    plane.start()
    yield plane
    plane.stop()


def objects(plane: ControlPlane) -> set[str]:
    """Everything that stands in the cluster, by kind, namespace and name."""
    kinds = kubectl(plane, "api-resources", "--verbs=list", "-o", "name").split()
    listed = ",".join(kind for kind in kinds if kind.partition(".")[0] not in PASSING)
    line = '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    return set(kubectl(plane, "get", listed, "-A", "-o", f"jsonpath={line}").splitlines())


def nodes(plane: ControlPlane) -> dict[str, Any]:
    """Of each node what others than its kubelet write."""
    return {
        node["metadata"]["name"]: (
            node["metadata"]["labels"],
            node["metadata"].get("annotations"),
            node["spec"],
            sorted(condition["type"] for condition in node["status"]["conditions"]),
        )
        for node in plane.api.get("/api/v1/nodes")["items"]
    }


def install(plane: ControlPlane, directory: Path) -> None:
    """As docs/install.md says it, with every component that makes objects."""
    for text in (
        (DEPLOY / "00-namespace.yaml").read_text(),
        subprocess.run([*NPU_WARDEN, "redis-acl", "secrets"], capture_output=True, text=True, check=True).stdout,
        subprocess.run([DEPLOY / "redis-certificates.sh"], capture_output=True, text=True, check=True).stdout,
    ):
        path = directory / "objects.yaml"
        path.write_text(text)
        kubectl(plane, "apply", "-f", str(path))
    render(plane, directory / "mine", *COMPONENTS)
    kubectl(plane, "apply", "--server-side", "-k", str(directory / "mine"))
    wait_until("recoveries are served", lambda: "recoveries" in kubectl(plane, "api-resources", "-o", "name"))


def at_work(rig: Rig) -> None:
    """A chip breaks: taint, annotation, condition, Recovery, Events, lease. The reconciler has ended then."""
    reconciler = rig.reconciler()
    reconciler.leads()
    rig.apply(workload(rig, "Deployment"))
    broken = home(rig.running(NAME, 2).popitem()[1])
    say(rig, broken, chip_fault())
    rig.recovered(60)
    node = rig.node(broken)
    assert rig.taint(broken)
    assert CONDITION in {condition["type"] for condition in node["status"]["conditions"]}
    assert ISOLATION_ANNOTATION in node["metadata"]["annotations"]
    reconciler.kill()
    rig.api.merge_patch(f"/api/v1/nodes/{broken}", {"metadata": {"labels": {"npuwarden.io/agent": "true"}}})
    rig.api.delete(f"/apis/apps/v1/namespaces/{rig.namespace}/deployments/{NAME}")
    wait_until("its pods are gone", lambda: not rig.pods())


def uninstall(plane: ControlPlane) -> None:
    done = subprocess.run(
        [str(DEPLOY / "uninstall.sh")],
        env={**os.environ, "KUBECTL": f"{plane.binaries / 'kubectl'} --kubeconfig {plane.kubeconfig}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def foreign(plane: ControlPlane, tmp_path: Path) -> Iterator[set[str]]:
    """What stands in a cluster of somebody else, with the kinds of workloads and those of cert-manager."""
    for name in OTHERS:
        plane.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    theirs = [one for one in definitions() if one["spec"]["group"] != API_GROUP]
    path = tmp_path / "definitions.yaml"
    path.write_text(yaml.safe_dump_all([*theirs, *cert_manager()]))
    kubectl(plane, "apply", "--server-side", "-f", str(path))
    kubectl(plane, "wait", "--for=condition=Established", "--timeout=40s", "crd", "--all")
    accounts = {f"ServiceAccount {name}/default" for name in OTHERS}
    wait_until("what every namespace gets", lambda: accounts <= objects(plane))
    controllers = controllers_of(plane)
    yield objects(plane)
    controllers.kill()


def test_nothing_is_left(plane: ControlPlane, foreign: set[str], redis_server: RedisServer, tmp_path: Path) -> None:
    install(plane, tmp_path)
    rig = Rig(plane, plane.kubeconfig_of(NAMESPACE, "npuwarden-reconciler"), redis_server, tmp_path)
    try:
        rig.add_nodes(3)
        note = {"metadata": {"annotations": {"example.com/note": "mine"}}}
        plane.api.merge_patch(f"/api/v1/nodes/{rig.nodes[0]}", note)
        untouched = nodes(plane)
        at_work(rig)
        assert len(objects(plane) - foreign) > 60

        uninstall(plane)
        assert nodes(plane) == untouched
    finally:
        rig.close()
    wait_until("nothing is left", lambda: objects(plane) - foreign <= {LEDGER})
    assert foreign - objects(plane) == set()
