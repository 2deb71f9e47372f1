"""The reconciler's wall clock is wrong, or is put right while an episode runs: durations do not follow it."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_clock import Clock
from console.scenario.virtual_pods import Recreate
from shared.model import FaultLevel, Instant
from tests.core.build import ascend_job, job_with_pods, node, pod

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)


class WrongClock(Clock):
    """The cluster's clock for durations; its wall clock is `ahead_s` before that of the API server."""

    def __init__(self, true: Clock) -> None:
        self.true, self.ahead_s = true, 0.0

    @property
    def t(self) -> float:  # type: ignore[override]
        return self.true.t

    def now(self) -> Instant:
        now = self.true.now()
        return Instant(now.mono, now.wall + self.ahead_s)


def wrong(lab: VirtualCluster) -> WrongClock:
    clock = WrongClock(lab.clock)
    lab.warden._clock = clock
    return clock


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_pod_gets_its_ten_seconds_whatever_the_wall_clock_says(ahead_s: float) -> None:
    """Forced at once, its successor would start while the old process still holds the chips."""
    lab = VirtualCluster([*(node(name) for name in "abxy"), *job_with_pods("j", ("a", "b"))], recreate=None)
    wrong(lab).ahead_s = ahead_s
    lab.run_until(10)
    lab.stick("a")
    lab.report("a", [BAD])
    lab.run_until(19)
    assert lab.store.get("pods", "ml", "j-master-0") is not None
    lab.run_until(23)
    assert lab.store.get("pods", "ml", "j-master-0") is None
    assert lab.warden.unsettled == []


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
@pytest.mark.parametrize("when", [10.1, 12, 20, 40])
def test_an_episode_ends_though_the_wall_clock_jumps_in_it(ahead_s: float, when: float) -> None:
    objects = [*(node(name) for name in "abxy"), *job_with_pods("j", ("a", "b"))]
    lab = VirtualCluster(objects, recreate=Recreate(3, 10, ("x", "y", "b")))
    clock = wrong(lab)
    lab.run_until(10)
    lab.report("a", [BAD])
    lab.go_to(when)
    clock.ahead_s = ahead_s
    lab.run_until(100)
    assert [r["status"]["phase"] for r in lab.recoveries] == ["Recovered"]
    lab.report("a")
    lab.run_until(390)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.run_until(420)
    assert lab.tainted == {}
    assert lab.warden.unsettled == []


def test_a_jump_of_the_wall_clock_does_not_restart_the_whole_job() -> None:
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on", "app": "mindie-ms-coordinator"}
    job = ascend_job("ms", labels=labels)
    pods = [pod(f"ms-{role}-0", on, job) for role, on in (("master", "a"), ("worker", "b"))]
    objects = [*(node(name) for name in "abxy"), job, *pods]
    lab = VirtualCluster(objects, recreate=Recreate(3, 60, ("x", "y")))
    clock = wrong(lab)
    lab.run_until(10)
    lab.report("a", [BAD])
    lab.run_until(20)
    assert set(lab.deleted) == {"ml/ms-master-0"}
    clock.ahead_s = 3600
    lab.run_until(200)
    assert set(lab.deleted) == {"ml/ms-master-0"}
