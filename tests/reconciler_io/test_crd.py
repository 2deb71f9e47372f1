"""deploy/crd.yaml says what the reconciler writes, and a real API server takes it."""

import subprocess
import time
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from console.lab.cluster.resources import BY_PLURAL
from reconciler.core import recovery
from reconciler.core.recovery import Recovery
from tests.cluster.api import ApiError
from tests.cluster.plane import ControlPlane
from tests.waiting import wait_until

CRD = Path(__file__).parents[2] / "deploy" / "crd.yaml"
VERSION: dict[str, Any] = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]

RECOVERY: dict[str, Any] = {
    "apiVersion": "npuwarden.io/v1alpha1",
    "kind": "Recovery",
    "metadata": {"name": "episode"},
    "spec": {
        "workload": {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "server-0", "uid": "u"},
        "unit": "mindie/server-0",
        "level": "Job",
        "method": "force",
        "cause": {"kind": "Hardware", "faults": ["80E18402@3 on node-a"], "nodes": ["node-a"]},
    },
    "status": {"phase": "Isolating", "times": {"detected": "2026-01-01T01:00:00.250Z", "tainted": None}},
}


def fields_of(kind: Any, prefix: str = "") -> set[str]:
    """Every field that a struct writes, as dotted wire names; what repeats is entered by its item."""
    found = set()
    for field in msgspec.structs.fields(kind):
        found.add(f"{prefix}{field.encode_name}")
        for inner in _structs(field.type):
            found |= fields_of(inner, f"{prefix}{field.encode_name}.")
    return found


def _structs(hint: Any) -> list[Any]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    if typing.get_origin(hint) in (tuple, list, types.UnionType, typing.Union):
        return [kind for part in typing.get_args(hint) for kind in _structs(part)]
    return []


def fields_in(schema: dict[str, Any], prefix: str = "") -> set[str]:
    """The same from the schema."""
    found = set()
    for name, inner in schema.get("properties", {}).items():
        found.add(f"{prefix}{name}")
        found |= fields_in(inner.get("items", inner), f"{prefix}{name}.")
    return found


@pytest.mark.parametrize(("part", "kind"), [("spec", recovery.RecoverySpec), ("status", recovery.RecoveryStatus)])
def test_the_schema_has_exactly_the_fields_that_are_written(part: str, kind: type) -> None:
    schema = VERSION["schema"]["openAPIV3Schema"]["properties"][part]
    assert fields_in(schema) == fields_of(kind)


def test_a_claim_is_one_update() -> None:
    """A status subresource, here or in the lab, would make two writes of it with a gap between them."""
    assert "subresources" not in VERSION
    assert not BY_PLURAL["recoveries"].status


def kubectl_of(control_plane: ControlPlane) -> list[str]:
    return [str(control_plane.binaries / "kubectl"), f"--kubeconfig={control_plane.kubeconfig}"]


def install(control_plane: ControlPlane, namespace: str) -> str:
    """Apply it as the documentation says; the path of a namespace's recoveries, once they are served."""
    subprocess.run([*kubectl_of(control_plane), "apply", "-f", str(CRD)], check=True, capture_output=True)
    path = f"/apis/npuwarden.io/v1alpha1/namespaces/{namespace}/recoveries"

    def served() -> bool:
        try:
            return bool(control_plane.api.find(path))
        except ApiError as exc:
            if exc.status == 429:  # its storage is being set up
                return False
            raise

    wait_until("the kind is served", served)
    return path


def test_a_real_api_server_takes_it_and_a_claim_is_one_write(control_plane: ControlPlane, namespace: str) -> None:
    path = install(control_plane, namespace)
    api, kubectl = control_plane.api, kubectl_of(control_plane)
    made = api.post(path, RECOVERY)

    claimed = {"holder": "me", "phase": "Deleting", "times": {"claimed": "2026-01-01T01:00:01.000Z"}}
    targets = [{"pod": "server-0-master-0", "uid": "p", "node": "node-a"}]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/spec/targets", "value": targets},
        {"op": "add", "path": "/status", "value": claimed},
    ]
    api.json_patch(f"{path}/episode", patch)
    stored = api.get(f"{path}/episode")
    assert (stored["spec"]["targets"], stored["status"]) == (targets, claimed)
    assert msgspec.convert(stored, Recovery).status.holder == "me"
    with pytest.raises(ApiError) as late:
        api.json_patch(f"{path}/episode", patch)
    assert late.value.status in (409, 422)

    listed = subprocess.run(
        [*kubectl, "get", "rcv", "-n", namespace], check=True, capture_output=True, text=True
    ).stdout
    assert listed.split()[:7] == ["NAME", "UNIT", "LEVEL", "PHASE", "REASON", "AGE", "DURATION"]
    assert "mindie/server-0" in listed


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("spec", "level"), "Cluster"),
        (("spec", "method"), "politely"),
        (("status", "phase"), "Dreaming"),
        (("status", "charged"), -1),
        (("status", "times"), {"detected": "yesterday"}),
    ],
)
def test_a_real_api_server_refuses_what_is_no_recovery(
    control_plane: ControlPlane, namespace: str, where: tuple[str, str], value: Any
) -> None:
    path = install(control_plane, namespace)
    part, field = where
    bad = {**RECOVERY, part: {**RECOVERY[part], field: value}, "metadata": {"name": f"bad-{time.monotonic_ns()}"}}
    with pytest.raises(ApiError) as refused:
        control_plane.api.post(path, bad)
    assert refused.value.status == 422
    assert f"{part}.{field}" in str(refused.value)
