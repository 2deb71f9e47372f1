"""The end of an isolation: hold-down and its growth, probation, the device plugin's word, softening, maintenance."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.scenario.virtual import VirtualCluster, fault
from reconciler.core.holddown import hold_down_s
from reconciler.core.policy import Isolation, Policy
from reconciler.core.state import Record
from shared.model import FaultLevel
from shared.names import ISOLATION_ANNOTATION, TAINT_KEY
from tests.core.build import job_with_pods, node

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
MILD = fault(3, "80E1801E", FaultLevel.RESTART_BUSINESS)
NPU = "huawei.com/Ascend910"


def cluster(*, extra: list[dict[str, Any]] | None = None, **isolate: Any) -> VirtualCluster:
    policy = Policy(isolate=Isolation(**{"hold_down_s": 60, "hold_down_max_s": 480, **isolate}))
    lab = VirtualCluster([*(node(name) for name in "abcdef"), *(extra or [])], policy=policy)
    lab.run_until(10)
    return lab


def record(lab: VirtualCluster, name: str = "a") -> Record:
    found = lab.store.get("nodes", "", name)
    assert found is not None
    return msgspec.json.decode(found["metadata"]["annotations"][ISOLATION_ANNOTATION], type=Record)


def values(lab: VirtualCluster) -> dict[str, str]:
    return {
        item["metadata"]["name"]: f"{taint['value']}:{taint['effect']}"
        for item in lab.store.objects("nodes")
        for taint in (item.get("spec") or {}).get("taints") or []
        if taint["key"] == TAINT_KEY
    }


def words(lab: VirtualCluster, name: str = "a") -> set[str]:
    return {hold.reason for hold in lab.why(name)}


def flap(lab: VirtualCluster, start: float, times: int) -> float:
    """The fault comes and goes so often, 10 s apart; returns when it went the last time."""
    for i in range(times):
        lab.report("a", [BAD])
        lab.run_until(start + 20 * i + 10)
        lab.report("a")
        lab.run_until(start + 20 * i + 20)
    return start + 20 * times - 10


@pytest.mark.parametrize(("times", "held_s"), [(1, 60), (2, 120), (3, 240), (4, 480), (6, 480)])
def test_the_hold_down_doubles_with_every_return_of_the_fault_up_to_its_limit(times: int, held_s: float) -> None:
    lab = cluster()
    healed = flap(lab, 10, times)
    lab.run_until(healed + held_s - 2)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.run_until(healed + held_s + 2)
    assert lab.tainted == {}


def test_a_new_leader_knows_the_flaps_and_goes_on_with_the_hold_down() -> None:
    lab = cluster()
    healed = flap(lab, 10, 3)
    assert record(lab).flaps == 2
    lab.restart_reconciler()
    lab.run_until(healed + 235)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.run_until(healed + 245)
    assert lab.tainted == {}


def test_flaps_are_forgotten_with_the_release() -> None:
    lab = cluster()
    lab.run_until(flap(lab, 10, 3) + 250)
    assert lab.tainted == {}
    lab.report("a", [BAD])
    lab.run_until(400)
    lab.report("a")
    lab.run_until(465)
    assert lab.tainted == {}


@pytest.mark.parametrize("flaps", [-5, 0, 1, 10, 10**9])
def test_the_hold_down_stays_between_its_bounds_whatever_the_record_says(flaps: int) -> None:
    policy = Policy(isolate=Isolation(hold_down_s=60, hold_down_max_s=480))
    assert 60 <= hold_down_s(policy, Record("s", "2026-01-01T00:00:00Z", flaps=flaps)) <= 480


def test_a_limit_below_the_hold_down_does_not_shorten_it() -> None:
    policy = Policy(isolate=Isolation(hold_down_s=900, hold_down_max_s=100))
    assert hold_down_s(policy, None) == 900


def test_probation_asks_new_work_to_stay_away_for_a_while_after_the_hold_down() -> None:
    lab = cluster(probation_s=100)
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.report("a")
    lab.run_until(85)
    assert values(lab) == {"a": "Probation:PreferNoSchedule"}
    assert words(lab) == {"probation"}
    lab.run_until(175)
    assert lab.tainted == {"a": "PreferNoSchedule"}
    lab.run_until(185)
    assert lab.tainted == {}


def test_a_fault_on_probation_isolates_at_once_and_is_a_flap() -> None:
    lab = cluster(probation_s=100)
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.report("a")
    lab.run_until(90)
    lab.report("a", [BAD])
    lab.run_until(92)
    assert values(lab) == {"a": "SeparateNPU:NoSchedule"}
    assert record(lab).flaps == 1
    assert record(lab).probation_until is None


def test_nothing_is_deleted_on_the_word_of_a_probation_taint() -> None:
    lab = cluster(probation_s=1000, extra=job_with_pods("j", ("a", "b")))
    lab.report("b", [MILD])
    lab.run_until(60)
    lab.report("b")
    lab.run_until(130)
    assert values(lab) == {"b": "Probation:PreferNoSchedule"}
    lab.refuse("patch", "Node/b", status=500, times=10_000)
    before = dict(lab.deleted)
    # Its pods have come back on other nodes; a new one is placed here by somebody who tolerates the taint.
    lab.create(one := job_with_pods("k", ("b",))[0])
    lab.create(job_with_pods("k", ("b",))[1])
    assert one["kind"] == "AscendJob"
    lab.report("b", [BAD])
    lab.run_until(160)
    assert lab.deleted == before, "the NoSchedule taint could not be written"
    lab.refuse("patch", "Node/b", status=500, times=0)


def test_probation_survives_a_new_leader() -> None:
    lab = cluster(probation_s=100)
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.report("a")
    lab.run_until(90)
    lab.restart_reconciler()
    lab.run_until(170)
    assert values(lab) == {"a": "Probation:PreferNoSchedule"}
    lab.run_until(190)
    assert lab.tainted == {}


@pytest.mark.parametrize(
    ("what", "boots", "probation"),
    [
        (BAD, True, True),
        (BAD, False, False),
        (MILD, True, False),
    ],
    ids=["separate, gone by a reboot", "separate, recovered", "milder, gone by a reboot"],
)
def test_a_separating_fault_that_only_a_reboot_has_ended_leads_to_probation(
    what: Any, boots: bool, probation: bool
) -> None:
    lab = cluster(reboot_probation_s=900)
    lab.report("a", [what])
    lab.run_until(20)
    if boots:
        lab.agents.reboot("a")
    lab.report("a")
    lab.run_until(90)
    assert values(lab) == ({"a": "Probation:PreferNoSchedule"} if probation else {})
    lab.run_until(90 + 900)
    assert lab.tainted == {}


def test_the_node_is_not_given_back_before_the_device_plugin_offers_all_npus() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "7"}}})
    lab.run_until(20)
    lab.report("a")
    lab.run_until(500)
    assert lab.tainted == {"a": "NoSchedule"}
    assert words(lab) == {"allocatable"}
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "8"}}})
    lab.run_until(502)
    assert lab.tainted == {}


def test_a_plugin_that_has_not_registered_again_keeps_the_node_isolated() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "0"}, "capacity": {NPU: "0"}}})
    lab.run_until(20)
    lab.report("a")
    lab.run_until(200)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.release("a")
    lab.run_until(202)
    assert lab.tainted == {}, "a person's release is never blocked"


def test_a_node_without_a_device_plugin_is_given_back_by_the_reports_alone() -> None:
    lab = cluster()
    lab.merge("Node/a", {"status": {"allocatable": {NPU: None}, "capacity": {NPU: None}}})
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.report("a")
    lab.run_until(85)
    assert lab.tainted == {}


def test_in_chip_scope_the_taint_softens_once_the_plugin_has_withdrawn_the_chip() -> None:
    lab = cluster(scope="chip")
    lab.report("a", [BAD])
    lab.run_until(20)
    assert values(lab) == {"a": "SeparateNPU:NoSchedule"}
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "7"}}})
    lab.run_until(22)
    assert values(lab) == {"a": "SeparateNPU:PreferNoSchedule"}
    lab.report("a", [BAD, fault(4, "80E18402", FaultLevel.SEPARATE_NPU)])
    lab.run_until(24)
    assert values(lab) == {"a": "SeparateNPU:NoSchedule"}, "the second chip is still on offer"


def test_a_softened_isolation_does_not_harden_again_when_the_fault_heals() -> None:
    lab = cluster(scope="chip")
    lab.report("a", [BAD])
    lab.run_until(12)
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "7"}}})
    lab.run_until(14)
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "8"}}})
    lab.report("a")
    lab.run_until(30)
    assert values(lab) == {"a": "SeparateNPU:PreferNoSchedule"}
    lab.run_until(80)
    assert lab.tainted == {}


def test_node_scope_never_softens_and_a_fault_of_the_host_does_not_either() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "7"}}})
    lab.run_until(20)
    assert values(lab) == {"a": "SeparateNPU:NoSchedule"}
    lab = cluster(scope="chip")
    lab.report("a", [fault("node", "NW-DISK-READONLY", FaultLevel.PRE_SEPARATE_NPU)])
    lab.merge("Node/a", {"status": {"allocatable": {NPU: "7"}}})
    lab.run_until(20)
    assert values(lab) == {"a": "PreSeparateNPU:NoSchedule"}


def test_a_node_cordoned_before_it_went_not_ready_is_maintenance() -> None:
    lab = cluster()
    for i in range(3):
        lab.merge("Node/a", {"spec": {"unschedulable": True}})
        lab.run_until(lab.clock.t + 5)
        lab.set_ready("a", "False")
        lab.silence("a")
        lab.run_until(lab.clock.t + 70)
        assert values(lab) == {"a": "NodeDead:NoSchedule"}, i
        lab.set_ready("a", "True")
        lab.report("a")
        lab.run_until(lab.clock.t + 10)
    assert record(lab).by == "maintenance"
    assert record(lab).flaps == 0


def test_maintenance_of_many_nodes_does_not_open_the_breaker() -> None:
    lab = cluster()
    for name in "abc":
        lab.merge(f"Node/{name}", {"spec": {"unschedulable": True}})
        lab.run_until(lab.clock.t + 5)
        lab.set_ready(name, "False")
        lab.silence(name)
        lab.run_until(lab.clock.t + 70)
    lab.report("d", [BAD])
    lab.run_until(lab.clock.t + 5)
    assert lab.tainted == dict.fromkeys("abcd", "NoSchedule")


def test_a_node_cordoned_after_it_broke_is_no_maintenance() -> None:
    lab = cluster()
    lab.set_ready("a", "False")
    lab.run_until(20)
    lab.merge("Node/a", {"spec": {"unschedulable": True}})
    lab.run_until(100)
    assert record(lab).by == "warden"


def test_a_new_leader_rewrites_nothing_that_is_right() -> None:
    lab = cluster(extra=job_with_pods("j", ("a", "b")), probation_s=500)
    lab.report("a", [BAD])
    lab.report("c", [fault(1, "80E18402", FaultLevel.SUB_HEALTH)])
    lab.isolate("d")
    lab.report("e", [MILD])
    lab.run_until(40)
    lab.report("e")
    lab.run_until(150)
    before = lab.store.objects("nodes")
    lab.restart_reconciler()
    lab.run_until(260)
    assert lab.store.objects("nodes") == before


def test_a_node_is_not_given_back_under_deletes_that_rest_on_its_taint() -> None:
    """A slow API server carries them out later than they were sent."""
    lab = cluster(extra=job_with_pods("j", ("a", "b")))
    lab.report("a", [BAD])
    lab.run_until(20)
    (meta,) = (recovery["metadata"] for recovery in lab.recoveries)
    under_way = lab.warden.world.memory.deleting
    under_way[f"Recovery/{meta['namespace']}/{meta['name']}"] = 2
    lab.report("a")
    lab.run_until(90)
    assert lab.tainted == {"a": "NoSchedule"}
    assert any("deletes under way for ml/j" in hold.message for hold in lab.why("a"))
    under_way.clear()
    lab.run_until(100)
    assert lab.tainted == {}
