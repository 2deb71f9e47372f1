"""A node whose kubelet turns away pods of several workloads takes no new work, whatever its agent says."""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster
from reconciler.core.policy import Isolation, Observe, Policy
from reconciler.core.rejections import CODE
from tests.core.build import Object, job_with_pods, node

ADMISSION = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Allocate failed due to rpc error: no such device davinci3",
    "conditions": [],
}


def start_error(text: str, reason: str = "RunContainerError") -> Object:
    waiting = {"name": "main", "state": {"waiting": {"reason": reason, "message": text}}}
    return {"phase": "Pending", "conditions": [], "containerStatuses": [waiting]}


def lab_of(*, policy: Policy | None = None) -> VirtualCluster:
    """Three jobs with a pod each on node a; no label allows a restart, so only the node is at stake."""
    jobs = [obj for name in "jkl" for obj in job_with_pods(name, ("a",), labels={})]
    lab = VirtualCluster([*(node(name) for name in "abcdef"), *jobs], policy=policy)
    lab.run_until(10)
    return lab


def reject(lab: VirtualCluster, job: str, status: Any = ADMISSION) -> None:
    lab.merge(f"Pod/ml/{job}-master-0", {"status": status})


def test_pods_of_two_workloads_make_the_node_suspect_and_are_named() -> None:
    lab = lab_of()
    reject(lab, "j")
    lab.run_until(20)
    assert lab.tainted == {}
    reject(lab, "k")
    lab.run_until(22)
    assert lab.tainted == {"a": "NoSchedule"}
    assert lab.condition("a") == "False"
    found = lab.store.get("nodes", "", "a")
    assert found is not None
    record = found["metadata"]["annotations"]["npuwarden.io/isolation"]
    assert CODE in record
    assert "ml/j-master-0" in record
    assert "no such device davinci3" in record


def test_pods_that_were_replaced_at_once_still_count() -> None:
    lab = lab_of()
    for job in "jk":
        reject(lab, job)
        lab.delete(f"Pod/ml/{job}-master-0")
        lab.run_until(lab.clock.t + 30)
    assert lab.tainted == {"a": "NoSchedule"}


def test_it_ends_when_nothing_was_turned_away_for_five_minutes_and_the_hold_down_is_over() -> None:
    lab = lab_of(policy=Policy(isolate=Isolation(hold_down_s=60)))
    for job in "jk":
        reject(lab, job)
    lab.run_until(12)
    for job in "jk":
        lab.delete(f"Pod/ml/{job}-master-0")
    lab.run_until(305)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.run_until(10 + 300 + 60 + 20)
    assert lab.tainted == {}


@pytest.mark.parametrize(
    ("one", "other", "suspect"),
    [
        (start_error("open /dev/davinci_manager: no such file"), ADMISSION, True),
        (start_error("ascend-docker-runtime: hook failed", "CreateContainerError"), ADMISSION, True),
        (start_error("exec: vllm: not found in $PATH"), ADMISSION, False),
        (start_error("manifest for npu-image unknown", "ImagePullBackOff"), ADMISSION, False),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, ADMISSION, False),
        ({"phase": "Failed", "reason": "OutOfcpu"}, ADMISSION, False),
    ],
)
def test_only_what_names_the_device_counts(one: Any, other: Any, suspect: bool) -> None:
    lab = lab_of()
    reject(lab, "j", one)
    reject(lab, "k", other)
    lab.run_until(15)
    assert bool(lab.tainted) is suspect


def test_rejections_far_apart_are_none_of_the_nodes() -> None:
    lab = lab_of()
    reject(lab, "j")
    lab.run_until(12)
    lab.delete("Pod/ml/j-master-0")
    lab.run_until(330)
    reject(lab, "k")
    lab.run_until(340)
    assert lab.tainted == {}


def test_the_rule_can_run_on_trial() -> None:
    lab = lab_of(policy=Policy(observe=Observe(codes=(CODE,))))
    for job in "jk":
        reject(lab, job)
    lab.run_until(20)
    assert lab.tainted == {}


def test_a_person_can_give_the_node_back_all_the_same() -> None:
    lab = lab_of()
    for job in "jk":
        reject(lab, job)
    lab.run_until(20)
    (name,) = lab.tainted
    lab.release(name)
    lab.run_until(60)
    assert lab.tainted == {}


def test_a_new_leader_takes_pods_turned_away_long_ago_for_no_news() -> None:
    lab = lab_of(policy=Policy(isolate=Isolation(hold_down_s=60)))
    for job in "jk":
        lab.merge(f"Pod/ml/{job}-master-0", {"metadata": {"creationTimestamp": lab.clock.timestamp()}})
        reject(lab, job)
    lab.run_until(1000)
    assert lab.tainted == {}, "five minutes and the hold-down are over"
    lab.restart_reconciler()
    lab.run_until(1100)
    assert lab.tainted == {}


def test_a_new_leader_still_knows_what_was_turned_away_just_now() -> None:
    lab = lab_of()
    for job in "jk":
        lab.merge(f"Pod/ml/{job}-master-0", {"metadata": {"creationTimestamp": lab.clock.timestamp()}})
    lab.restart_reconciler()
    for job in "jk":
        reject(lab, job)
    lab.run_until(20)
    assert lab.tainted == {"a": "NoSchedule"}
