"""One bad value of one agent, pod, node or owner never stops the plan for all the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.scenario.virtual import VirtualCluster, fault
from reconciler.core.taints import record_of
from shared.model import Fault, FaultLevel
from shared.names import ISOLATION_ANNOTATION
from tests.core.build import job_with_pods, node
from tests.core.worlds import a_fault, decide, hear, kinds, report, world_of

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
DEEP = "[" * 100_000


def _since(value: float) -> Fault:
    return msgspec.structs.replace(a_fault(), since=value)


@pytest.mark.parametrize("since", [-1e15, -1e11, -1.0, 0.0, 1e11, 1e300])
def test_a_fault_may_say_any_since(since: float) -> None:
    world = world_of([node("a"), *job_with_pods("j", ("a",))])
    hear(world, report("a", _since(since)))
    assert [action.partition(" ")[0] for action in kinds(decide(world))] == ["Isolate", "OpenRecovery"]


def test_a_pod_annotation_with_an_endless_chip_number_concerns_nobody_else() -> None:
    odd = job_with_pods("odd", ("b",))
    odd[1]["metadata"]["annotations"] = {"huawei.com/AscendReal": "Ascend910-" + "9" * 5000}
    world = world_of([node("a"), node("b"), *job_with_pods("j", ("a",)), *odd])
    hear(world, report("a", a_fault()), report("b", a_fault()))
    assert "Isolate Node/a" in kinds(decide(world))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"session":1}', "junk", DEEP, f'{{"zz":{DEEP}'])
def test_an_isolation_record_edited_to_garbage_is_written_anew(text: str) -> None:
    lab = VirtualCluster([*(node(name) for name in "abcd"), *job_with_pods("j", ("c",))])
    lab.run_until(5)
    lab.report("a", [BAD])
    lab.run_until(10)
    lab.merge("Node/a", {"metadata": {"annotations": {ISOLATION_ANNOTATION: text}}})
    lab.run_until(20)
    (found,) = [n for n in lab.warden.world.nodes.values() if n.metadata.name == "a"]
    record = record_of(found)
    assert record is not None
    assert record.reasons == ("SeparateNPU 80E18402@3",)
    assert lab.warden.unsettled == []


@pytest.mark.parametrize(
    "spec",
    [
        {"replicaSpecs": {"Master": {"replicas": None}}},
        {"replicaSpecs": {"Master": {"replicas": "2"}}},
        {"replicaSpecs": [1]},
        {"replicaSpecs": {"Master": []}},
        {"runPolicy": {"backoffLimit": "x"}},
        {},
    ],
    ids=str,
)
def test_an_owner_of_an_odd_shape_concerns_nobody_else(spec: dict[str, Any]) -> None:
    odd = job_with_pods("odd", ("b",))
    odd[0]["spec"] = spec
    odd[0]["status"] = {"conditions": [None, 3, {"type": "Failed"}]}
    world = world_of([node("a"), node("b"), *job_with_pods("j", ("a",)), *odd])
    hear(world, report("a", a_fault()), report("b", a_fault()))
    assert "Isolate Node/a" in kinds(decide(world))


def test_ten_thousand_faults_make_a_record_that_fits_into_a_node() -> None:
    """The API server takes 256 KiB of annotations: beyond that the taint in the same write would be refused too."""
    world = world_of([node("a"), *job_with_pods("j", ("a",))])
    many = [a_fault(chip, f"80E1{code:04X}") for chip in range(16) for code in range(625)]
    hear(world, report("a", *many))
    plan = decide(world)
    (isolate,) = [action for action in plan.actions if type(action).__name__ == "Isolate"]
    assert len(msgspec.json.encode(isolate.record)) < 16_384  # type: ignore[union-attr]
    (opened,) = [action for action in plan.actions if type(action).__name__ == "OpenRecovery"]
    assert len(msgspec.json.encode(opened.spec)) + len(msgspec.json.encode(opened.status)) < 65_536  # type: ignore[union-attr]
