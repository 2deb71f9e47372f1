"""What the warden wrote on nodes is taken off, and what others wrote stays."""

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from shared.names import CONDITION, ISOLATION_ANNOTATION, TAINT_KEY
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY

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


def test_nothing_is_left_on_a_node_but_what_is_others(control_plane: ControlPlane, node: Any) -> None:
    kubectl = f"{control_plane.binaries / 'kubectl'} --kubeconfig {control_plane.kubeconfig}"
    for _ in range(2):  # the second time there is nothing to do
        done = subprocess.run(
            [str(DEPLOY / "uninstall.sh"), "traces"],
            env={**os.environ, "KUBECTL": kubectl},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    seen = node()
    assert FOREIGN in seen["spec"]["taints"]
    assert TAINT_KEY not in {taint["key"] for taint in seen["spec"]["taints"]}
    assert seen["metadata"]["annotations"]["example.com/note"] == "mine"
    assert not [key for key in seen["metadata"]["annotations"] if key.startswith("npuwarden.io/")]
    kinds = {condition["type"] for condition in seen["status"]["conditions"]}
    assert "Ready" in kinds
    assert CONDITION not in kinds


def test_a_misspelt_part_is_refused() -> None:
    done = subprocess.run(
        [str(DEPLOY / "uninstall.sh"), "trace"], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2
    assert "all or traces" in done.stderr
