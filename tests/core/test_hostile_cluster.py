"""People, controllers and clocks that interfere with an open episode: it ends, and touches nothing but its unit."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core import fold
from reconciler.core.actions import KeepRecord
from reconciler.core.calls import Outcome
from reconciler.core.objects import Meta, Node
from reconciler.core.policy import Budget, Policy
from shared.model import FaultLevel
from shared.names import OPT_OUT_LABEL
from tests.core.build import FORCE, Object, ascend_job, job_with_pods, node, pod, role_set, storm_service
from tests.core.worlds import T0, world_of

pytestmark = pytest.mark.slow

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
SPARE = Recreate(3, 10, ("x", "y", "z"))


def cluster(*objects: Object, policy: Policy | None = None, recreate: Recreate | None = SPARE) -> VirtualCluster:
    """Nodes a, b in use, x, y, z free; ten seconds old."""
    lab = VirtualCluster([*(node(name) for name in "abxyz"), *objects], policy=policy, recreate=recreate)
    lab.run_until(10)
    return lab


def phases(lab: VirtualCluster) -> list[str]:
    return [recovery["status"]["phase"] for recovery in lab.recoveries]


def settled(lab: VirtualCluster) -> None:
    assert lab.warden.unsettled == []


def test_a_unit_whose_old_recoveries_were_removed_is_restarted_all_the_same() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    for start in (10, 510):  # twice a fault that is gone before its taint could be written
        lab.refuse("patch", "Node/a", status=500, times=1)
        lab.report("a", [BAD])
        lab.run_until(start + 0.1)
        lab.report("a")
        lab.run_until(start + 500)
    assert phases(lab) == ["Aborted", "Aborted"]
    lab.delete(f"Recovery/ml/{lab.recoveries[0]['metadata']['name']}")
    lab.report("a", [BAD])
    lab.run_until(1100)
    settled(lab)
    assert phases(lab)[-1] == "Recovered"


def test_no_more_pods_are_deleted_in_a_minute_than_the_budget_allows() -> None:
    policy = Policy(budget=Budget(deletes_per_min=2))
    lab = cluster(*job_with_pods("j", ("a", "b", "x", "y")), policy=policy)
    lab.report("a", [BAD])
    lab.run_until(30)
    assert len(lab.deleted) == 2
    lab.run_until(200)
    assert len(lab.deleted) == 4
    settled(lab)


def test_the_budget_of_deletes_holds_over_all_units_of_one_plan() -> None:
    policy = Policy(budget=Budget(restarting="100%", deletes_per_min=3))
    jobs = [obj for i in range(5) for obj in job_with_pods(f"j{i}", ("a", "b"))]
    lab = cluster(*jobs, policy=policy)
    lab.report("a", [BAD])
    lab.run_until(40)
    assert len(lab.deleted) <= 3
    lab.run_until(400)
    assert len(lab.deleted) == 10
    settled(lab)


def test_a_node_that_never_had_an_agent_is_not_dead_by_a_second_of_not_ready() -> None:
    """The silence of an agent that was never there says nothing; NotReady alone counts after a minute."""
    lab = VirtualCluster([*(node(name) for name in "abx"), *job_with_pods("j", ("a", "b"))], recreate=SPARE)
    del lab.agents._agents["a"]
    lab.warden.world.heard.clear()
    lab.restart_reconciler()
    lab.run_until(120)
    lab.set_ready("a", "False")
    lab.run_until(121)
    lab.set_ready("a", "True")
    lab.run_until(200)
    assert lab.deleted == {}


def test_a_target_written_into_a_recovery_by_hand_is_not_deleted() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("x",)))
    lab.stick("a")
    lab.report("a", [BAD])
    lab.run_until(12)
    (recovery,) = lab.recoveries
    assert recovery["status"]["phase"] == "Deleting"
    foreign = {"pod": "k-master-0", "uid": "uid-k-master-0", "node": "x"}
    lab.merge(
        f"Recovery/ml/{recovery['metadata']['name']}",
        {"spec": {"targets": [*recovery["spec"]["targets"], foreign]}},
    )
    lab.run_until(100)
    assert "ml/k-master-0" not in lab.deleted
    assert phases(lab) == ["Recovered"]


def test_a_pod_that_hangs_longer_than_the_hold_down_is_still_forced() -> None:
    """The node is healthy and given back after 300 s; the pod that is deleted already is still ended after 900 s."""
    lab = cluster(*job_with_pods("j", ("a", "b"), labels={"fault-scheduling": "grace"}))
    lab.stick("a")
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.report("a")
    lab.run_until(600)
    assert lab.tainted == {}
    lab.run_until(1200)
    assert phases(lab) == ["Recovered"]


def test_a_pod_that_hangs_is_forced_in_time_however_often_the_leader_changes() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b"), labels={"fault-scheduling": "grace"}))
    lab.stick("a")
    lab.report("a", [BAD])
    for at in (200, 400, 600, 800):
        lab.run_until(at)
        lab.restart_reconciler()
    lab.run_until(900)
    assert phases(lab) == ["Deleting"]
    lab.run_until(950)
    assert phases(lab) == ["Recovered"]


def test_a_fault_that_stays_restarts_in_time_however_often_the_leader_changes() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    lab.report("a", [fault(3, "80E18402", FaultLevel.RESTART_REQUEST)])
    for at in (30, 50):
        lab.run_until(at)
        lab.restart_reconciler()
    lab.run_until(69)
    assert lab.deleted == {}
    lab.run_until(95)
    assert set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


def test_a_half_deleted_unit_of_a_node_that_was_released_by_hand_is_finished() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    lab.refuse("delete", "Pod/ml/j-worker-0", status=429, times=8)
    lab.report("a", [BAD])
    lab.run_until(14)
    assert set(lab.deleted) == {"ml/j-master-0"}
    lab.release("a")
    lab.run_until(900)
    settled(lab)
    assert phases(lab) == ["Recovered"]
    assert set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


def two_decodes(labels: dict[str, str]) -> list[Object]:
    service = storm_service("svc")
    roles = role_set("svc-rs", service)
    return [service, roles, *(pod(f"svc-rs-decode-{i}", on, roles, labels=labels) for i, on in enumerate("ab"))]


def test_a_role_that_restarts_by_pod_is_left_alone_when_the_role_beside_it_restarts() -> None:
    service = storm_service("svc")
    roles = role_set("svc-rs", service)
    router = pod("svc-rs-router-0", "a", roles, labels=FORCE | {"pod-rescheduling": "on"})
    lab = cluster(service, roles, router, pod("svc-rs-decode-0", "b", roles, labels=FORCE))
    lab.report("b", [BAD])
    lab.run_until(100)
    assert (list(lab.deleted), phases(lab)) == (["ml/svc-rs-decode-0"], ["Recovered"])
    lab.report("a", [BAD])
    lab.run_until(200)
    assert (list(lab.deleted), phases(lab)) == (["ml/svc-rs-decode-0", "ml/svc-rs-router-0"], ["Recovered"] * 2)


def test_the_return_of_one_pod_is_not_taken_for_the_return_of_its_sibling() -> None:
    lab = cluster(*two_decodes({"fault-scheduling": "force", "pod-rescheduling": "on"}), recreate=None)
    lab.report("a", [BAD])
    lab.report("b", [BAD])
    lab.run_until(15)
    assert set(lab.deleted) == {"ml/svc-rs-decode-0", "ml/svc-rs-decode-1"}
    (roles,) = lab.store.objects("rolesets")
    lab.create(pod("svc-rs-decode-1", "x", roles, uid="second"))
    lab.run_until(40)
    by_instance = {r["spec"]["instance"]: r["status"]["phase"] for r in lab.recoveries}
    assert by_instance == {"svc-rs-decode-0": "Recreating", "svc-rs-decode-1": "Recovered"}


def test_our_own_answer_that_arrives_after_the_watch_raises_no_ghost() -> None:
    """The delete's answer shows the pod terminating; by the time it is folded the watch has shown the pod gone."""
    world = world_of([])
    obj = {**node("a"), "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}
    fold.observe(world, "Node", "set", obj)
    fold.observe(world, "Node", "gone", {**obj, "metadata": {**obj["metadata"], "resourceVersion": "9"}})
    late = {**obj, "metadata": {**obj["metadata"], "resourceVersion": "8"}}
    fold.outcome(world, KeepRecord(Node(Meta("a")), None), Outcome(True, seen=(late,)), T0)
    assert world.nodes == {}
    new = {**obj, "metadata": {**obj["metadata"], "uid": "v", "resourceVersion": "10"}}
    fold.observe(world, "Node", "set", new)
    assert set(world.nodes) == {"a"}


def test_an_opted_out_node_can_be_released() -> None:
    lab = cluster(*job_with_pods("j", ("b",)))
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.merge("Node/a", {"metadata": {"labels": {OPT_OUT_LABEL: "true"}}})
    lab.run_until(30)
    lab.release("a")
    lab.run_until(60)
    assert lab.tainted == {}
    settled(lab)


def test_a_pod_that_tolerates_the_taint_is_not_deleted_again_and_again() -> None:
    """It comes back on the faulty chip each time: after some attempts that is said, and left to people."""
    job = ascend_job("j", replicas=1)
    lab = cluster(job, pod("j-master-0", "a", job), recreate=None)
    lab.report("a", [BAD])
    for second in range(11, 300):
        lab.run_until(second)
        if lab.store.get("pods", "ml", "j-master-0") is None:
            lab.create(pod("j-master-0", "a", job, uid=f"uid-{second}", ready=False))
    settled(lab)
    assert len(lab.deleted) <= 5


def test_a_pod_that_lands_wrong_is_not_deleted_beyond_what_its_operator_allows() -> None:
    """The next delete would end the job: the replacement stays where it is, and that is said once."""
    labels = FORCE | {"fault-retry-times": "1"}
    job = ascend_job("j", replicas=1, labels=labels)
    lab = cluster(job, pod("j-master-0", "a", job, labels=labels | {"version": "0"}), recreate=None)
    lab.report("a", [BAD])
    for second in range(11, 120):
        lab.run_until(second)
        if lab.store.get("pods", "ml", "j-master-0") is None:
            lab.create(pod("j-master-0", "a", job, uid="second", ready=False, labels=labels | {"version": "1"}))
    settled(lab)
    assert list(lab.deleted) == ["ml/j-master-0"]
    assert [(r["status"]["phase"], r["status"]["reason"]) for r in lab.recoveries] == [("Exhausted", "backoff-limit")]
    assert "backoff-limit" in {hold.reason for hold in lab.why("ml/j")}


def test_a_surplus_pod_that_was_ending_anyway_is_not_waited_for() -> None:
    service = storm_service("svc")
    roles = role_set("svc-rs", service)
    roles["spec"] = {
        "roles": [{"name": "decode", "replicas": 2}, {"name": "prefill", "podGroupSize": 2, "replicas": 4}]
    }
    labels = {"fault-scheduling": "force"}
    ending = pod("svc-rs-decode-9", "b", roles, labels=labels, chips=())
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T01:00:05Z", "deletionGracePeriodSeconds": 5}
    decodes = [pod(f"svc-rs-decode-{i}", "a", roles, labels=labels, chips=(i,)) for i in (3, 4)]
    lab = cluster(service, roles, *decodes, ending, recreate=None)
    lab.report("a", [BAD])
    lab.run_until(60)
    for i, on in ((3, "x"), (4, "y")):
        lab.create(pod(f"svc-rs-decode-{i}", on, roles, uid=f"new-{i}"))
    lab.run_until(90)
    assert phases(lab) == ["Recovered"]


@pytest.mark.parametrize("phase", ["nonsense", "", "Held", "Pending", "Recreating"])
def test_a_phase_edited_by_hand_deletes_nothing_twice_and_ends(phase: str) -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    lab.report("a", [BAD])
    lab.run_until(11)
    (recovery,) = lab.recoveries
    lab.merge(f"Recovery/ml/{recovery['metadata']['name']}", {"status": {"phase": phase}})
    lab.run_until(200)
    settled(lab)
    assert all(recovery["status"]["phase"] in ("Recovered", "Superseded", "Aborted") for recovery in lab.recoveries)
    assert set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


@pytest.mark.parametrize("when", [11, 11.5, 12, 14, 20])
@pytest.mark.parametrize("what", ["recovery", "owner", "pod"])
def test_deleting_things_in_mid_episode_converges(when: float, what: str) -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("b",)))
    lab.report("a", [BAD])
    lab.run_until(when)
    gone: Any = {"recovery": f"Recovery/ml/{lab.recoveries[0]['metadata']['name']}", "owner": "AscendJob/ml/j"}
    with contextlib.suppress(LookupError):
        lab.delete(gone.get(what, "Pod/ml/j-worker-0"))
    lab.run_until(300)
    settled(lab)
    assert not any(recovery.open for recovery in lab.warden.world.recoveries.values())
    assert not any("k-" in name for name in lab.deleted)


def test_a_flapping_fault_never_settles_into_a_loop() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    for i in range(60):
        lab.report("a", [BAD] if i % 2 else [])
        lab.run_until(10 + 5 * i)
    lab.report("a")
    lab.run_until(3000)
    settled(lab)
    assert lab.tainted == {"a": "NoSchedule"}, "the hold-down has grown to its limit"
    lab.run_until(4000)
    assert lab.tainted == {}
    assert set(lab.deleted) <= {"ml/j-master-0", "ml/j-worker-0"}


def test_a_node_that_comes_back_as_another_machine_is_judged_anew() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")), labels := ascend_job("z", labels=FORCE))
    assert labels["kind"] == "AscendJob"
    lab.report("a", [BAD])
    lab.run_until(60)
    old = lab.store.get("nodes", "", "a")
    assert old is not None
    lab.delete("Node/a")
    lab.run_until(70)
    fresh = node("a")
    fresh["metadata"] |= {"uid": "another", "annotations": old["metadata"]["annotations"]}
    lab.create(fresh)
    lab.run_until(80)
    assert lab.tainted == {"a": "NoSchedule"}  # the agent still says so
    lab.report("a")
    lab.run_until(500)
    assert lab.tainted == {}
    settled(lab)


@pytest.mark.parametrize("status", [409, 500])
@pytest.mark.parametrize(
    ("verb", "target"),
    [
        ("get", "Node/a"),
        ("patch", "Node/a"),
        ("get", "Recovery/ml/*"),
        ("patch", "Recovery/ml/*"),
        ("create", "Recovery/ml/*"),
        ("get", "Pod/ml/j-worker-0"),
        ("delete", "Pod/ml/j-worker-0"),
        ("get", "AscendJob/ml/j"),
    ],
)
def test_a_request_that_is_refused_for_a_while_only_delays(verb: str, target: str, status: int) -> None:
    probe = cluster(*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("b",)))
    probe.report("a", [BAD])
    probe.run_until(12)
    name = probe.recoveries[0]["metadata"]["name"]
    lab = cluster(*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("b",)))
    lab.refuse(verb, target.replace("*", name), status=status, times=9)
    lab.report("a", [BAD])
    lab.run_until(400)
    settled(lab)
    assert phases(lab) == ["Recovered"]
    assert set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


@pytest.mark.parametrize("pause", [10.0, 10.1, 10.3, 11, 12, 15, 22])
def test_a_pause_at_any_moment_ends_with_the_pause(pause: float) -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    lab.report("a", [BAD])
    lab.go_to(pause)
    lab.pause("maintenance")
    lab.run_until(pause + 120)
    deleted = set(lab.deleted)
    settled(lab)
    lab.restart_reconciler()
    lab.pause(None)
    lab.run_until(pause + 400)
    settled(lab)
    assert phases(lab)[-1] == "Recovered"
    assert deleted <= set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


@pytest.mark.parametrize("when", [10.1, 10.3, 10.6, 11, 11.5, 12, 14, 15, 22])
def test_a_new_leader_without_redis_goes_on_and_harms_nobody(when: float) -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")), *job_with_pods("k", ("b",)))
    lab.report("a", [BAD])
    lab.go_to(when)
    lab.redis(up=False)
    lab.restart_reconciler()
    lab.run_until(when + 300)
    settled(lab)
    assert set(lab.deleted) <= {"ml/j-master-0", "ml/j-worker-0"}
    assert lab.tainted in ({"a": "NoSchedule"}, {})
    lab.redis(up=True)
    lab.run_until(when + 700)
    settled(lab)
    assert phases(lab)[-1] == "Recovered"
    assert set(lab.deleted) == {"ml/j-master-0", "ml/j-worker-0"}


def test_a_pod_with_a_drawn_name_is_found_again_whatever_the_clocks_say() -> None:
    """The API server's clock is two seconds behind ours: the successor seems older than our claim."""
    service = storm_service("svc")
    roles = role_set("svc-rs", service)
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on"}
    old = pod("svc-rs-decode-abc12", "a", roles, labels=labels)
    sibling = pod("svc-rs-decode-zzz99", "b", roles, labels=labels)
    for obj in (old, sibling):
        obj["metadata"] |= {"generateName": "svc-rs-decode-", "creationTimestamp": "2026-01-01T00:00:00Z"}
    lab = cluster(service, roles, old, sibling, recreate=None)
    lab.report("a", [BAD])
    lab.run_until(13)
    assert set(lab.deleted) == {"ml/svc-rs-decode-abc12"}
    began = lab.recoveries[0]["metadata"]["creationTimestamp"]
    assert phases(lab) == ["Recreating"]
    lab.merge(
        f"Recovery/ml/{lab.recoveries[0]['metadata']['name']}",
        {"status": {"times": {"claimed": "2026-01-01T01:00:13Z"}}},
    )
    new = pod("svc-rs-decode-qqq34", "x", roles, labels=labels)
    new["metadata"] |= {"generateName": "svc-rs-decode-", "creationTimestamp": began}
    lab.create(new)
    lab.run_until(20)
    assert phases(lab) == ["Recovered"]
    assert lab.recoveries[0]["status"]["replacements"][0]["pod"] == "svc-rs-decode-qqq34"


def test_two_pods_with_drawn_names_each_wait_for_their_own_successor() -> None:
    service = storm_service("svc")
    roles = role_set("svc-rs", service)
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on"}
    for_name = {"generateName": "svc-rs-decode-", "creationTimestamp": "2026-01-01T00:00:00Z"}
    pods = [pod(f"svc-rs-decode-abc1{i}", on, roles, labels=labels) for i, on in enumerate("ab")]
    for obj in pods:
        obj["metadata"] |= for_name
    lab = cluster(service, roles, *pods, recreate=None)
    lab.report("a", [BAD])
    lab.report("b", [BAD])
    lab.run_until(15)
    assert len(lab.deleted) == 2
    for i, on in enumerate("xy"):
        new = pod(f"svc-rs-decode-qqq3{i}", on, roles, labels=labels)
        new["metadata"] |= {"generateName": "svc-rs-decode-", "creationTimestamp": lab.clock.timestamp()}
        lab.create(new)
        lab.run_until(20 + 10 * i)
        assert sorted(phases(lab)) == (["Recovered", "Recreating"] if i == 0 else ["Recovered", "Recovered"])


def test_a_unit_that_is_switched_off_before_its_first_delete_keeps_its_pods() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b")))
    lab.report("a", [BAD])
    lab.run_until(10.1)
    assert phases(lab) == ["Isolating"]
    lab.merge("AscendJob/ml/j", {"metadata": {"labels": {"fault-scheduling": "off"}}})
    lab.run_until(100)
    assert (phases(lab), lab.deleted) == (["Aborted"], {})
    assert "label-off" in {hold.reason for hold in lab.why("ml/j")}
    settled(lab)


def test_a_job_that_is_switched_off_does_not_follow_a_pod_that_stays_away() -> None:
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on", "app": "mindie-ms-coordinator"}
    job = ascend_job("ms", replicas=2, labels=labels)
    pods = [pod(f"ms-{role}-0", on, job, chips=()) for role, on in (("master", "a"), ("worker", "b"))]
    lab = cluster(job, *pods, recreate=Recreate(3, 5000, ("x", "y", "z")))
    lab.report("a", [fault("node", "NW-X", FaultLevel.SEPARATE_NPU)])
    lab.run_until(100)
    lab.merge("AscendJob/ml/ms", {"metadata": {"labels": {"fault-scheduling": "off"}}})
    lab.run_until(900)
    assert list(lab.deleted) == ["ml/ms-master-0"]
    assert phases(lab) == ["Escalated"]
    assert "label-off" in {hold.reason for hold in lab.why("ml/ms")}


def test_a_job_that_is_made_smaller_in_mid_episode_recovers_with_what_it_is_now() -> None:
    lab = cluster(*job_with_pods("j", ("a", "b", "x")), recreate=None)
    lab.report("a", [BAD])
    lab.run_until(15)
    lab.merge("AscendJob/ml/j", {"spec": {"replicaSpecs": {"Worker": {"replicas": 1}}}})
    (job,) = lab.store.objects("ascendjobs")
    for name, on in (("j-master-0", "y"), ("j-worker-0", "z")):
        lab.create(pod(name, on, job, uid=f"new-{name}"))
    lab.run_until(900)
    assert phases(lab) == ["Recovered"]
