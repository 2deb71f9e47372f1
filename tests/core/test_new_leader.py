"""What a new leader must not forget, although it knows nothing but what stands in the cluster."""

from __future__ import annotations

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core.policy import Budget, Policy
from shared.model import FaultLevel
from tests.core.build import job_with_pods, node

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
