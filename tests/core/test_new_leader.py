"""What a new leader must not forget, although it knows nothing but what stands in the cluster."""

from __future__ import annotations

import msgspec
import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core import clock, fold
from reconciler.core.objects import Meta
from reconciler.core.policy import Budget, Policy
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Target, Times, WorkloadRef
from shared.model import FaultLevel
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0, a_fault, hear, report, world_of

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)


def test_it_counts_the_deletes_of_the_last_minute_on() -> None:
    policy = Policy(budget=Budget(deletes_per_min=2))
    jobs = [*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("a", "b"))]
    lab = VirtualCluster(
        [*(node(name) for name in "abwxyz"), *jobs], policy=policy, recreate=Recreate(3, 10, ("w", "x", "y", "z"))
    )
    lab.run_until(10)
    lab.report("a", [BAD])
    for moment in (12, 20, 40, 60):
        lab.run_until(moment)
        assert len(lab.deleted) == 2, f"at {moment}"
        lab.restart_reconciler()
    lab.run_until(75)
    assert len(lab.deleted) == 4
    lab.run_until(200)
    assert {recovery["status"]["phase"] for recovery in lab.recoveries} == {"Recovered"}


def test_it_waits_for_no_delete_that_is_older() -> None:
    policy = Policy(budget=Budget(deletes_per_min=2))
    jobs = [*job_with_pods("j", ("a", "b"), labels={"fault-scheduling": "grace"}), *job_with_pods("k", ("c", "d"))]
    lab = VirtualCluster(
        [*(node(name) for name in "abcdwxyz"), *jobs], policy=policy, recreate=Recreate(3, 10, ("w", "x", "y", "z"))
    )
    for name in "ab":
        lab.stick(name)
    lab.report("a", [BAD])
    lab.run_until(80)
    assert len(lab.deleted) == 2
    lab.restart_reconciler()
    lab.report("c", [BAD])
    lab.run_until(83)
    assert len(lab.deleted) == 4, "pods that have been terminating for long were taken for new deletes"


@pytest.mark.parametrize(
    ("conditions", "on", "created_s", "led_s", "age_s"),
    [
        ({}, None, -90, 5, 90),
        ({}, None, -900, 5, 100),
        ({}, None, -90, 700, 0),
        ({"PodScheduled": -40}, "b", -90, 5, 40),
        ({"PodScheduled": -40, "Ready": -30}, "b", -90, 5, 30),
        ({}, "b", -90, 5, 0),
        ({"PodScheduled": 40}, "b", -90, 5, 0),
    ],
    ids=["not bound", "older than the claim", "seen", "bound", "was Ready", "bound, nobody says when", "clock ahead"],
)
def test_a_pod_level_restart_keeps_its_patience(
    conditions: dict[str, float], on: str | None, created_s: float, led_s: float, age_s: float
) -> None:
    _, made = job_with_pods("j", ("a",))
    made["spec"]["nodeName"] = on
    made["metadata"]["creationTimestamp"] = clock.seconds(T0.wall + created_s)
    made["status"]["conditions"] = [
        {"type": name, "status": "False", "lastTransitionTime": clock.seconds(T0.wall + at)}
        for name, at in conditions.items()
    ]
    world = world_of([made], led_s=led_s)
    job = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "j", "uid-j")
    spec = RecoverySpec(job, "ml/j", "Pod", "force", Cause("Hardware"), controller=job)
    status = RecoveryStatus(phase="Recreating", times=Times(claimed=clock.rfc3339(T0.wall - 100)))
    world.recoveries["ml/r"] = Recovery(Meta("r", namespace="ml"), spec, status)
    fold.advance(world, T0)
    assert T0.mono - world.memory.waiting_since["uid-j-master-0", on is not None] == pytest.approx(age_s)


@pytest.mark.parametrize(
    ("api_clock_s", "claimed_s", "led_s", "age_s"),
    [
        (-600, -600, 5, 600),
        (-600, -600, 700, 0),
        (-4200, -600, 5, 600),
        (3000, -600, 5, 0),
        (-600, 60, 5, 0),
        (-600, None, 5, 0),
    ],
    ids=[
        "older than the leader",
        "seen by this leader",
        "the API server's clock is behind",
        "the API server's clock is ahead",
        "the clock of the leader before was ahead",
        "never claimed",
    ],
)
def test_how_long_a_pod_has_been_terminating_is_never_overstated(
    api_clock_s: float, claimed_s: float | None, led_s: float, age_s: float
) -> None:
    _, made = job_with_pods("j", ("a",))
    made["metadata"]["deletionTimestamp"] = clock.seconds(T0.wall + api_clock_s + 30)
    made["metadata"]["deletionGracePeriodSeconds"] = 30
    world = world_of([made], led_s=led_s)
    job = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "j", "uid-j")
    claimed = None if claimed_s is None else clock.rfc3339(T0.wall + claimed_s)
    world.recoveries["ml/r"] = Recovery(
        Meta("r", namespace="ml"),
        RecoverySpec(job, "ml/j", "Job", "grace", Cause("Hardware"), targets=(Target("j-master-0", "uid-j-master-0"),)),
        RecoveryStatus(phase="Deleting", times=Times(claimed=claimed)),
    )
    fold.advance(world, T0)
    assert T0.mono - world.memory.ending_since["uid-j-master-0"] == pytest.approx(age_s)


@pytest.mark.parametrize(
    ("since_s", "at_s", "led_s", "age_s"),
    [(-40, -10, 5, 30), (-40, -10, 100, 0), (-90_000, -89_980, 5, 20), (20, 10, 5, 0)],
    ids=["older than the leader", "seen by this leader", "the node's clock is a day behind", "opened after the report"],
)
def test_how_long_a_fault_is_open_is_read_from_the_nodes_own_clock(
    since_s: float, at_s: float, led_s: float, age_s: float
) -> None:
    world = world_of([node("a")], led_s=led_s)
    bad = msgspec.structs.replace(a_fault(), since=T0.wall + since_s)
    hear(world, msgspec.structs.replace(report("a", bad), at=T0.wall + at_s))
    fold.advance(world, T0)
    assert T0.mono - world.memory.first_heard["a", bad.id] == pytest.approx(age_s)
