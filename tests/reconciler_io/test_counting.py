"""What the metrics say after a plan, after an action, and when this replica leads no more."""

from typing import Any

import msgspec
import pytest

from reconciler.core import clock
from reconciler.core.actions import BrakesUsed, OpenRecovery, Plan, Progress, Release
from reconciler.core.calls import Outcome
from reconciler.core.objects import Meta, Node
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Times, WorkloadRef
from reconciler.counting import SUSPICIOUS_S, Counting
from reconciler.metrics import Metrics
from shared.model import FaultLevel, Unknown
from shared.names import ISOLATION_ANNOTATION, TAINT_KEY
from tests.core.build import node
from tests.core.worlds import T0, a_fault, after, hear, report, world_of

PREFIX = "npuwarden_reconciler_"
DONE, FAILED = Outcome(True), Outcome(False, "conflict", "somebody was faster")
SPEC = RecoverySpec(WorkloadRef("v1", "AscendJob", "j", "u"), "ml/j", "Job", "force", Cause("Hardware"))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def counting(metrics: Metrics) -> Counting:
    return Counting(metrics)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(PREFIX + name, labels)


def times(**seconds: float) -> Times:
    return Times(**{name: clock.rfc3339(T0.wall + at) for name, at in seconds.items()})


def test_a_plan_is_counted_and_the_end_of_leading_takes_it_back(metrics: Metrics, counting: Counting) -> None:
    tainted: dict[str, Any] = node("a")
    tainted["spec"] = {"taints": [{"key": TAINT_KEY, "effect": "NoSchedule", "value": "SeparateNPU"}]}
    world = world_of([tainted, node("b")])
    blind = (Unknown(1, "hbm_ecc", T0.wall, "hangs"), Unknown(2, "hbm_ecc", T0.wall, "hangs"))
    hear(world, msgspec.structs.replace(report("a", a_fault()), unknown=blind), report("b"))
    world.recoveries["ml/r"] = Recovery(Meta("r"), SPEC, RecoveryStatus(phase="Deleting"))
    counting.planned(world.snapshot(), Plan((), (), None, BrakesUsed(3, 3, True, 1, 2)))
    assert value(metrics, "isolated_nodes", value="SeparateNPU", origin="probe") == 1
    assert value(metrics, "open_faults", level="SeparateNPU", origin="probe") == 1
    assert value(metrics, "open_faults", level=FaultLevel.SUB_HEALTH.value, origin="probe") == 0
    assert value(metrics, "blind_sources", probe="hbm_ecc") == 2
    assert value(metrics, "recoveries", phase="Deleting", origin="probe") == 1
    assert value(metrics, "breaker_open") == 1
    assert (value(metrics, "restart_budget_used"), value(metrics, "restart_budget_slots")) == (1, 2)
    counting.ended()
    assert value(metrics, "isolated_nodes", value="SeparateNPU", origin="probe") is None
    assert value(metrics, "breaker_open") == 0


def test_the_time_of_each_phase_is_from_the_one_before_it_that_is_known(metrics: Metrics, counting: Counting) -> None:
    status = RecoveryStatus(phase="Recovered", times=times(detected=0, tainted=0.5, deleted=2, ready=32, finished=33))
    recovery = Recovery(Meta("r"), SPEC, RecoveryStatus(phase="Recreating"))
    counting.came_of(Progress(recovery, status), FAILED, T0)
    assert value(metrics, "recovery_seconds_count", outcome="Recovered", level="Job", origin="probe") is None
    counting.came_of(Progress(recovery, status), DONE, T0)
    took = {
        phase: value(metrics, "recovery_phase_seconds_sum", phase=phase, origin="probe")
        for phase in ("tainted", "claimed", "deleted", "ready")
    }
    assert took == {"tainted": 0.5, "claimed": None, "deleted": 1.5, "ready": 30}
    assert value(metrics, "recovery_seconds_sum", outcome="Recovered", level="Job", origin="probe") == 33


def test_an_open_recovery_and_one_that_was_over_already_are_not_counted(metrics: Metrics, counting: Counting) -> None:
    opened = Recovery(Meta("r"), SPEC, RecoveryStatus(phase="Isolating"))
    over = Recovery(Meta("r"), SPEC, RecoveryStatus(phase="Recovered"))
    finished = RecoveryStatus(phase="Recovered", times=times(detected=0, finished=1))
    counting.came_of(Progress(opened, RecoveryStatus(phase="Deleting", times=times(detected=0))), DONE, T0)
    counting.came_of(Progress(over, finished), DONE, T0)
    assert value(metrics, "recovery_seconds_count", outcome="Recovered", level="Job", origin="probe") is None
    exhausted = RecoveryStatus(phase="Exhausted", times=times(detected=0, finished=0))
    counting.came_of(OpenRecovery("ml", "r", SPEC, exhausted), DONE, T0)
    assert value(metrics, "recovery_seconds_count", outcome="Exhausted", level="Job", origin="probe") == 1


def isolated(by: str) -> Node:
    record = msgspec.json.encode({"session": "s", "since": clock.rfc3339(T0.wall), "by": by}).decode()
    return Node(Meta("a", annotations={ISOLATION_ANNOTATION: record}))


@pytest.mark.parametrize(
    ("by", "after_s", "by_hand", "outcome", "counted"),
    [
        ("warden", SUSPICIOUS_S - 1, False, DONE, "warden"),
        ("warden", SUSPICIOUS_S + 1, False, DONE, None),
        ("warden", 30, True, DONE, "operator"),
        ("warden", 30, False, FAILED, None),
        ("operator", 30, True, DONE, None),
        ("maintenance", 30, False, DONE, None),
    ],
)
def test_an_isolation_that_soon_ends_without_a_repair_is_suspected(
    metrics: Metrics, counting: Counting, by: str, after_s: float, by_hand: bool, outcome: Outcome, counted: str | None
) -> None:
    counting.came_of(Release(isolated(by), "why", by_hand=by_hand), outcome, after(after_s))
    found = {who: value(metrics, "false_isolations_total", by=who) for who in ("warden", "operator")}
    assert {who for who, count in found.items() if count} == ({counted} if counted else set())
