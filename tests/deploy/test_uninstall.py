"""What the warden wrote on nodes and what its components made is taken off, and what others wrote stays."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.names import CONDITION, ISOLATION_ANNOTATION, TAINT_KEY
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, documents, kubectl

NODE = "/api/v1/nodes/left-behind"
FOREIGN = {"key": "example.com/broken", "effect": "NoSchedule"}


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[Any]:
    annotations = {ISOLATION_ANNOTATION: "{}", "example.com/note": "mine"}
    taints = [FOREIGN, {"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}]
    api = control_plane.api
    body = {"metadata": {"name": "left-behind", "annotations": annotations}, "spec": {"taints": taints}}
    api.post("/api/v1/nodes", body)
    conditions = [{"type": "Ready", "status": "True"}, {"type": CONDITION, "status": "False"}]
    api.merge_patch(f"{NODE}/status", {"status": {"conditions": conditions}})
    yield lambda: api.get(NODE)
    api.delete(NODE)


def uninstall(plane: ControlPlane, part: str) -> None:
    for _ in range(2):  # the second time there is nothing to do
        done = subprocess.run(
            [str(DEPLOY / "uninstall.sh"), part],
            env={**os.environ, "KUBECTL": f"{plane.binaries / 'kubectl'} --kubeconfig {plane.kubeconfig}"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_nothing_is_left_on_a_node_but_what_is_others(control_plane: ControlPlane, node: Any) -> None:
    uninstall(control_plane, "traces")
    seen = node()
    assert FOREIGN in seen["spec"]["taints"]
    assert TAINT_KEY not in {taint["key"] for taint in seen["spec"]["taints"]}
    assert seen["metadata"]["annotations"]["example.com/note"] == "mine"
    assert not [key for key in seen["metadata"]["annotations"] if key.startswith("npuwarden.io/")]
    kinds = {condition["type"] for condition in seen["status"]["conditions"]}
    assert "Ready" in kinds
    assert CONDITION not in kinds


KNOWN = '*/apis/admissionregistration.k8s.io/v1) echo "validatingadmissionpolicies" ;;'
UNKNOWN = """
*/apis/admissionregistration.k8s.io/v1) echo "validatingwebhookconfigurations" ;;
*validatingadmissionpolic* | *" -k "* | *admission.yaml*) echo "no matches for this kind" >&2; exit 1 ;;
"""


def recorded(directory: Path, *cases: str) -> tuple[list[str], str]:
    """What an uninstall calls a kubectl with that answers so, and what it says; it must not fail."""
    recorder, said = directory / "kubectl", directory / "said"
    answers = "\n".join(cases)
    recorder.write_text(f'#!/bin/sh\necho " $* " >>{said}\ncase $* in\n{answers}\nesac\n')
    recorder.chmod(0o755)
    done = subprocess.run(
        [str(DEPLOY / "uninstall.sh")],
        env={**os.environ, "KUBECTL": str(recorder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return said.read_text().splitlines(), done.stderr


def test_a_kubernetes_without_admission_policies_is_left_as_clean_and_told(tmp_path: Path) -> None:
    lines, told = recorded(tmp_path, UNKNOWN)
    (last,) = (line for line in lines if " delete " in line and "-f" in line.split())
    assert last == lines[-1]
    files = {Path(word).name for word in last.split() if word.endswith(".yaml")}
    assert files == {path.name for path in DEPLOY.glob("*.yaml")} - {"admission.yaml"}
    assert "admission.yaml is left out" in told


def test_all_ends_the_writers_before_it_takes_anything_off(tmp_path: Path) -> None:
    lines, _ = recorded(tmp_path, KNOWN)
    wanted = (
        "deployment npuwarden-reconciler",
        "cronjob/npuwarden-drill",
        "clusterrole/npuwarden-ranktable",
        "nodes",
        "-k",
    )
    places = [next(n for n, line in enumerate(lines) if f" {word}" in line) for word in wanted]
    assert places == sorted(places)
    assert places[-1] == len(lines) - 1


def test_an_aggregated_api_that_is_away_keeps_nothing_from_being_removed(tmp_path: Path) -> None:
    """kubectl then fails to list the kinds of any group (metrics-server is down, say)."""
    away = '*api-resources*) echo "unable to retrieve the complete list of server APIs" >&2; exit 1 ;;'
    lines, _ = recorded(tmp_path, away, KNOWN)
    for name in (
        "validatingadmissionpolicy/npuwarden-drill-nodes",
        "clusterissuers.cert-manager.io/npuwarden-redis",
        "-k",
    ):
        assert any(f" {name}" in line for line in lines), name


def test_a_misspelt_part_is_refused() -> None:
    done = subprocess.run(
        [str(DEPLOY / "uninstall.sh"), "trace"], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2
    assert "all, components or traces" in done.stderr


KINDS = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
MINDX = "/api/v1/namespaces/mindx-dl/services/clusterd-grpc-svc"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/mindx-dl/endpointslices"
TABLES = "/api/v1/namespaces/default/configmaps"
PART_OF = {"app.kubernetes.io/part-of": "npu-warden"}
CLUSTERD = {"selector": {"app": "clusterd"}, "ports": [{"name": "grpc", "port": 8899}]}


def standing(plane: ControlPlane) -> set[str]:
    """By kind and name, without what deploy/ itself makes."""
    own = {obj["metadata"]["name"] for obj in documents()}
    cluster = kubectl(plane, "get", KINDS, "-o", "name")
    inside = kubectl(plane, "get", "-A", "roles,rolebindings,cronjobs,serviceaccounts", "-o", "name")
    found = set((cluster + inside).split())
    return {one for one in found if "npuwarden" in one and one.partition("/")[2] not in own}


@pytest.fixture
def components(applied: ControlPlane) -> Iterator[ControlPlane]:
    """The components that make objects, with what the reconciler writes for them."""
    assert standing(applied) == set()
    made = ("ranktable/rbac.yaml", "ranktable/admission.yaml", "drill/rights.yaml", "drill/cronjob.yaml")
    for name in (*made, "evidence/rbac.yaml", "evidence/admission.yaml", "webhook/network.yaml"):
        kubectl(applied, "apply", "-f", str(DEPLOY / "components" / name))
    for name in ("npuwarden-ranktable-llm", "npuwarden-ranktable"):
        applied.api.post(TABLES, {"metadata": {"name": name, "labels": {"jobID": "llm"}}})
    for name in ("npuwarden-ranktable", "npuwarden-ranktable-v6", "others"):
        metadata = {"name": name, "labels": {"kubernetes.io/service-name": "clusterd-grpc-svc"}}
        applied.api.post(SLICES, {"metadata": metadata, "addressType": "IPv4", "endpoints": []})
    assert len(standing(applied)) == 18
    yield applied
    for path in (f"{TABLES}/npuwarden-ranktable", f"{SLICES}/others"):
        applied.api.delete(path)


def test_nothing_is_left_of_the_components(components: ControlPlane) -> None:
    api = components.api
    kubectl(components, "apply", "-f", str(DEPLOY / "components" / "ranktable" / "service.yaml"))
    uninstall(components, "components")
    assert standing(components) == set()
    assert api.find(MINDX) is None
    assert "ms-controllers-to-reconciler" not in kubectl(components, "get", "-A", "networkpolicies", "-o", "name")
    assert "reconciler-to-webhooks" not in kubectl(components, "get", "-A", "networkpolicies", "-o", "name")
    assert "drill-to-api-server" not in kubectl(components, "get", "-A", "networkpolicies", "-o", "name")
    assert [one["metadata"]["name"] for one in api.get(SLICES)["items"]] == ["others"]
    assert api.find(f"{TABLES}/npuwarden-ranktable-llm") is None
    assert api.find(f"{TABLES}/npuwarden-ranktable") is not None, "not one of ours"


@pytest.mark.parametrize("labels", [{}, PART_OF], ids=["its own", "a selector over ours"])
def test_clusterds_service_is_never_touched(components: ControlPlane, labels: dict[str, str]) -> None:
    api = components.api
    metadata = {"name": "clusterd-grpc-svc", "labels": labels}
    made = api.post(MINDX.rpartition("/")[0], {"metadata": metadata, "spec": CLUSTERD})
    try:
        uninstall(components, "components")
        assert api.get(MINDX)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert standing(components) == set()
    finally:
        api.delete(MINDX)
