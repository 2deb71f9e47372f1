"""What serves is restarted within a budget, one instance of a service at a time; what is dead waits for nobody."""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core.budget import dead_anyway
from reconciler.core.judge import judge
from reconciler.core.policy import Breaker, Budget, CommonCause, LevelOverride, Policy
from reconciler.core.units import Index, Unit
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from shared.names import MIN_READY_ANNOTATION
from tests.core.build import Object, job_with_pods, node
from tests.core.worlds import T0, a_fault, hear, report, world_of

FORCE = {"fault-scheduling": "force", "fault-retry-times": "100"}
ASKS = fault(3, "80E1801E", FaultLevel.RESTART_REQUEST)
FATAL = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
NOW = LevelOverride(reschedule="now")


def policy(**budget: Any) -> Policy:
    return Policy(
        budget=Budget(**budget),
        common_cause=CommonCause(nodes=1000),
        breaker=Breaker(nodes="100%"),
        levels={FaultLevel.RESTART_REQUEST: NOW},
    )


def lab_of(
    jobs: list[list[Object]], spares: int = 3, *, wish: Policy | None = None, binds: bool = True
) -> VirtualCluster:
    names = sorted({pod["spec"]["nodeName"] for job in jobs for pod in job[1:]})
    spare = [f"spare-{i}" for i in range(spares)]
    objects = [node(name) for name in (*names, *spare)] + [obj for job in jobs for obj in job]
    lab = VirtualCluster(
        objects, policy=wish or policy(), recreate=Recreate(after=3, ready=10, nodes=tuple(spare) if binds else ())
    )
    lab.run_until(10)
    return lab


def jobs_of(count: int, *, service: str | None = None, note: str | None = None) -> list[list[Object]]:
    found = []
    for i in range(count):
        labels = FORCE | ({"jobID": service, "app": "mindie-ms-server"} if service else {})
        job = job_with_pods(f"j{i}", (f"n{i}a",), labels=labels)
        for one in job[1:]:
            one["metadata"]["labels"].update({k: v for k, v in labels.items() if k in ("jobID", "app")})
        if note is not None:
            job[0]["metadata"]["annotations"] = {MIN_READY_ANNOTATION: note}
        found.append(job)
    return found


def restarted(lab: VirtualCluster) -> set[str]:
    return {name.split("/")[1].split("-")[0] for name in lab.deleted}


def words(lab: VirtualCluster, unit: str) -> set[str]:
    return {hold.reason for hold in lab.why(unit)}


def test_units_that_still_serve_restart_two_at_a_time_and_the_rest_follows() -> None:
    lab = lab_of(jobs_of(5), spares=6)
    for i in range(5):
        lab.report(f"n{i}a", [ASKS])
    lab.run_until(13)
    assert restarted(lab) == {"j0", "j1"}
    assert words(lab, "ml/j2") == {"budget"}
    lab.run_until(28)
    assert restarted(lab) == {"j0", "j1", "j2", "j3"}
    lab.run_until(60)
    assert restarted(lab) == {"j0", "j1", "j2", "j3", "j4"}


@pytest.mark.parametrize(
    ("restarting", "units", "at_once"), [("10%", 39, 3), ("10%", 5, 2), ("7", 9, 7), ("100%", 9, 9)]
)
def test_the_budget_is_a_share_rounded_down_or_a_count_and_never_below_two(
    restarting: str, units: int, at_once: int
) -> None:
    lab = lab_of(jobs_of(units), spares=12, wish=policy(restarting=restarting))
    for i in range(min(units, 12)):
        lab.report(f"n{i}a", [ASKS])
    lab.run_until(12)
    assert len(restarted(lab)) == at_once


def test_dead_units_need_no_slot() -> None:
    lab = lab_of(jobs_of(6), spares=8)
    for i in range(6):
        lab.report(f"n{i}a", [FATAL])
    lab.run_until(13)
    assert len(restarted(lab)) == 6


def test_one_instance_of_a_service_at_a_time() -> None:
    lab = lab_of(jobs_of(3, service="llm"), spares=6, wish=policy(restarting="50"))
    for i in range(3):
        lab.report(f"n{i}a", [ASKS])
    lab.run_until(13)
    assert restarted(lab) == {"j0"}
    assert words(lab, "ml/j1") == {"budget"}
    lab.run_until(80)
    assert restarted(lab) == {"j0", "j1", "j2"}


def test_an_instance_that_still_serves_waits_for_a_dead_one_of_its_service() -> None:
    lab = lab_of(jobs_of(2, service="llm"), spares=4)
    lab.report("n1a", [FATAL])
    lab.run_until(11)
    lab.report("n0a", [ASKS])
    lab.run_until(13)
    assert restarted(lab) == {"j1"}
    lab.run_until(60)
    assert restarted(lab) == {"j0", "j1"}


def test_a_recovery_that_waits_for_capacity_leaves_its_slot() -> None:
    lab = lab_of(jobs_of(3), binds=False)  # something else than NPUs is short
    for i in range(2):
        lab.report(f"n{i}a", [ASKS])
    lab.run_until(30)
    assert [recovery["status"]["phase"] for recovery in lab.recoveries] == ["WaitingForCapacity"] * 2
    lab.report("n2a", [ASKS])
    lab.run_until(40)
    assert "budget" not in words(lab, "ml/j2")


def test_a_new_leader_counts_the_slots_that_are_taken() -> None:
    lab = lab_of(jobs_of(4), spares=6)
    for i in range(4):
        lab.report(f"n{i}a", [ASKS])
    lab.run_until(13)
    lab.restart_reconciler()
    lab.run_until(14)
    assert restarted(lab) == {"j0", "j1"}


@pytest.mark.parametrize(
    ("note", "restarts"),
    [("1", True), ("2", True), ("3", False), ("0", True), ("two", False), ("-1", False)],
)
def test_no_fewer_ready_instances_than_the_workload_asks_for(note: str, restarts: bool) -> None:
    lab = lab_of(jobs_of(3, service="llm", note=note), spares=3)
    lab.report("n0a", [ASKS])
    lab.run_until(15)
    assert bool(lab.deleted) is restarts
    assert ("min-ready" in words(lab, "ml/j0")) is not restarts


def test_a_dead_instance_is_restarted_however_few_are_ready() -> None:
    lab = lab_of(jobs_of(2, service="llm", note="5"), spares=3)
    lab.report("n0a", [FATAL])
    lab.run_until(15)
    assert restarted(lab) == {"j0"}


def test_an_open_breaker_holds_what_still_serves() -> None:
    wish = Policy(levels={FaultLevel.RESTART_REQUEST: NOW}, breaker=Breaker(nodes="0%", min_nodes=1))
    lab = lab_of(jobs_of(2), wish=wish)
    lab.report("n0a", [ASKS])
    lab.run_until(15)
    assert lab.deleted == {}
    assert words(lab, "ml/j0") == {"breaker"}


@pytest.mark.parametrize(
    ("what", "dead"),
    [
        (a_fault(3, level=FaultLevel.SEPARATE_NPU), True),
        (a_fault(3, level=FaultLevel.RESTART_BUSINESS), True),
        (a_fault(3, level=FaultLevel.MANUALLY_SEPARATE_NPU), True),
        (a_fault(3, level=FaultLevel.PRE_SEPARATE_NPU), False),
        (a_fault(3, level=FaultLevel.RESTART_REQUEST), False),
        (a_fault(3, level=FaultLevel.SEPARATE_NPU, confirmed=False), False),
        (a_fault("node", level=FaultLevel.SEPARATE_NPU), False),
    ],
)
def test_dead_anyway_is_a_confirmed_fatal_fault_of_a_chip_it_uses(what: Any, dead: bool) -> None:
    world = world_of([node("a"), *job_with_pods("j", ("a",))])
    hear(world, report("a", what))
    state = world.snapshot()
    index = Index(state)
    unit = unit_of(next(iter(state.pods.values())), index)
    assert isinstance(unit, Unit)
    assert dead_anyway(state, {"a": judge(state, "a", T0)}, unit) is dead


def test_nothing_is_taken_from_a_service_in_the_very_plan_that_restarts_a_dead_instance_of_it() -> None:
    """Which of the two is looked at first makes no difference."""
    for dead, serving in (("n0a", "n1a"), ("n1a", "n0a")):
        lab = lab_of(jobs_of(2, service="one"))
        lab.report(dead, [FATAL])
        lab.report(serving, [ASKS])
        lab.run_until(11)
        assert [r["spec"].get("voluntary", False) for r in lab.recoveries] == [False], f"{dead} is dead"
        lab.run_until(60)
        assert [r["status"]["phase"] for r in lab.recoveries] == ["Recovered", "Recovered"]
