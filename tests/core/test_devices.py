"""What a node has offered before: the witness of Kubernetes itself for chips that the device plugin has withdrawn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.scenario.virtual import VirtualCluster, fault
from reconciler import views
from reconciler.core import devices
from reconciler.core.objects import Node
from reconciler.core.policy import Isolation, Policy
from shared.model import FaultLevel
from shared.names import OFFERED_ANNOTATION
from tests.core.build import node

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
NPU, OLD_NPU = "huawei.com/Ascend910", "huawei.com/npu"


def seen(capacity: dict[str, str], allocatable: dict[str, str], kept: str | None) -> Node:
    status = {"capacity": {"cpu": "64", **capacity}, "allocatable": {"cpu": "64", **allocatable}}
    notes = {} if kept is None else {OFFERED_ANNOTATION: kept}
    return msgspec.convert({"metadata": {"name": "a", "annotations": notes}, "status": status}, Node)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "kept", "missing", "writes"),
    [
        pytest.param({NPU: "8"}, {NPU: "8"}, None, 0, {NPU: 8}, id="first seen"),
        pytest.param({NPU: "8"}, {NPU: "8"}, '{"huawei.com/Ascend910":8}', 0, None, id="as ever"),
        pytest.param({NPU: "8"}, {NPU: "7"}, '{"huawei.com/Ascend910":8}', 1, None, id="one unhealthy"),
        pytest.param({NPU: "7"}, {NPU: "7"}, '{"huawei.com/Ascend910":8}', 1, None, id="one lost: capacity fell too"),
        pytest.param({NPU: "8"}, {NPU: "7"}, None, 1, {NPU: 7}, id="no history: the kubelet's count"),
        pytest.param({NPU: "0"}, {NPU: "0"}, '{"huawei.com/Ascend910":8}', 8, None, id="not registered again"),
        pytest.param({NPU: "16"}, {NPU: "16"}, '{"huawei.com/Ascend910":8}', 0, {NPU: 16}, id="grown"),
        pytest.param(
            {OLD_NPU: "0", NPU: "8"}, {OLD_NPU: "0", NPU: "8"}, '{"huawei.com/npu":8}', 0, {NPU: 8}, id="renamed"
        ),
        pytest.param({NPU: "8"}, {NPU: "8"}, "8 of them", 0, {NPU: 8}, id="edited by hand"),
        pytest.param({NPU: "8"}, {NPU: "8"}, '{"huawei.com/Ascend910":900000000}', 0, {NPU: 8}, id="absurd"),
        pytest.param({}, {}, None, 0, None, id="no NPUs"),
    ],
)
def test_what_is_missing_is_counted_from_what_the_node_has_offered_before(
    capacity: dict[str, str], allocatable: dict[str, str], kept: str | None, missing: int, writes: dict[str, int] | None
) -> None:
    one = seen(capacity, allocatable, kept)
    assert devices.missing(one) == missing
    assert devices.new_history(one) == writes


@pytest.mark.parametrize(
    ("missing", "faulty", "chips", "is_withdrawn"),
    [
        pytest.param(1, {3}, range(8), True, id="the faulty one"),
        pytest.param(0, {3}, range(8), False, id="none"),
        pytest.param(1, {3, 4}, range(8), False, id="one of two"),
        pytest.param(1, {3}, [0, 1, 2, 3, 4, 5, 6], False, id="chip 7 has left the node, 3 is on offer"),
        pytest.param(1, {7}, [0, 1, 2, 3, 4, 5, 6], True, id="chip 7 is lost, and is the fault"),
        pytest.param(2, {3}, [0, 1, 2, 3, 4, 5, 6], True, id="one has left, the faulty one is withdrawn"),
        pytest.param(1, {3}, (), True, id="the agent names no chips"),
        pytest.param(1, set(), range(8), False, id="no fault of a chip"),
    ],
)
def test_a_chip_that_has_left_the_node_is_not_taken_for_the_faulty_one(
    missing: int, faulty: set[int], chips: Any, is_withdrawn: bool
) -> None:
    one = seen({NPU: "8"}, {NPU: str(8 - missing)}, None)
    assert devices.withdrawn(one, faulty, set(chips)) is is_withdrawn


def cluster(**isolate: Any) -> VirtualCluster:
    lab = VirtualCluster(
        [node(name) for name in "abcdef"], policy=Policy(isolate=Isolation(**{"hold_down_s": 60, **isolate}))
    )
    lab.run_until(10)
    return lab


def lose_a_chip(lab: VirtualCluster) -> None:
    """The plugin registers again with what it still finds: capacity and allocatable both fall."""
    lab.merge("Node/a", {"status": {"capacity": {NPU: "7"}, "allocatable": {NPU: "7"}}})


def held(lab: VirtualCluster) -> dict[str, str]:
    return {hold.reason: hold.message for hold in lab.why("a")}


def test_a_node_that_comes_back_with_fewer_npus_stays_isolated_for_every_leader_and_says_the_way_out() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    lose_a_chip(lab)
    lab.report("a")
    lab.run_until(200)
    assert lab.tainted == {"a": "NoSchedule"}
    assert "7 of 8 NPUs" in held(lab)["allocatable"]
    assert "npu-warden release NODE" in held(lab)["allocatable"]
    lab.restart_reconciler()
    lab.run_until(400)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.release("a")
    lab.run_until(402)
    assert lab.tainted == {}


def test_a_person_who_releases_the_node_takes_it_as_it_is_the_next_time_too() -> None:
    lab = cluster()
    lose_a_chip(lab)
    lab.run_until(15)
    assert views.node(lab.warden.snapshot(), "a", lab.clock.now()).reasons == ["the device plugin offers 7 of 8 NPUs"]
    lab.release("a")
    lab.run_until(20)
    assert views.node(lab.warden.snapshot(), "a", lab.clock.now()).reasons == []
    lab.report("a", [BAD])
    lab.run_until(30)
    lab.report("a")
    lab.run_until(100)
    assert lab.tainted == {}


def test_a_machine_that_joins_under_the_same_name_has_no_history() -> None:
    lab = cluster()
    lab.delete("Node/a")
    lab.run_until(12)
    smaller = node("a")
    smaller["metadata"]["uid"] = "uid-another-a"
    smaller["status"] |= {"capacity": {NPU: "4"}, "allocatable": {NPU: "4"}}
    lab.create(smaller)
    lab.run_until(20)
    shown = views.node(lab.warden.snapshot(), "a", lab.clock.now()).npus
    assert shown is not None
    assert (shown.offered, shown.present) == (4, 4)


def test_in_chip_scope_a_lost_chip_softens_the_taint_although_the_kubelet_counts_one_fewer() -> None:
    lab = cluster(scope="chip")
    lab.report("a", [BAD])
    lose_a_chip(lab)
    lab.run_until(20)
    assert lab.tainted == {"a": "PreferNoSchedule"}


def test_a_missing_chip_alone_isolates_nobody_and_is_written_once() -> None:
    lab = cluster()
    before = lab.store.get("nodes", "", "b")
    lose_a_chip(lab)
    lab.run_until(300)
    assert lab.tainted == {}
    assert lab.store.get("nodes", "", "b") == before
