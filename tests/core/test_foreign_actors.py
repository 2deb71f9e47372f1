"""Others restart and delete pods too: never two hands on one unit, and what they have left undone is finished.

Each actor is played by what it does to the objects; the warden must see it from those alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster, fault
from shared.model import FaultLevel
from tests.core.build import FORCE, Object, job_with_pods, node, owner_ref, pod, pod_set, role_set, storm_service
from tests.core.test_workloads import deployment, lws, owner, stateful_set

SEPARATE = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
REQUEST = fault(3, "80C98008", FaultLevel.RESTART_REQUEST)
NODES = ("a", "b", "c", "d", "node-x", "node-y", "node-z")
PLUGIN: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
    "data": {"volcano-scheduler.conf": "tiers: [{plugins: [{name: volcano-npu}]}]"},
}
MASTER, WORKER = "ml/j-master-0", "ml/j-worker-0"


def volcano_job() -> list[Object]:
    objects = job_with_pods("j", ("a", "b"))
    for obj in objects[1:]:
        obj["spec"]["schedulerName"] = "volcano"
    return objects


def cluster(objects: list[Object], **more: Any) -> VirtualCluster:
    return VirtualCluster([*(node(name) for name in NODES), *objects], **more)


def at(seen: VirtualCluster, t: float) -> VirtualCluster:
    seen.run_until(t)
    return seen


def phases(seen: VirtualCluster) -> list[str]:
    return [recovery["status"]["phase"] for recovery in seen.recoveries]


def words(seen: VirtualCluster, unit: str) -> set[str]:
    return {hold.reason for hold in seen.why(unit)}


# MindCluster's plugin in Volcano


@pytest.mark.parametrize(
    ("objects", "stands_down"), [(volcano_job(), True), (job_with_pods("j", ("a", "b")), False)], ids=["its", "other"]
)
def test_beside_the_scheduler_plugin_only_pods_of_other_schedulers_are_ours(
    objects: list[Object], stands_down: bool
) -> None:
    seen = at(cluster([*objects, PLUGIN]), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(20)
    assert seen.tainted == {"a": "NoSchedule"}
    assert bool(seen.deleted) is not stands_down
    assert ("stand-down" in words(seen, "ml/j")) is stands_down


def test_a_plugin_that_comes_before_the_first_delete_gets_the_unit() -> None:
    seen = at(cluster(volcano_job()), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(10.1)
    assert phases(seen) == ["Isolating"]
    seen.create(PLUGIN)
    seen.run_until(30)
    assert (phases(seen), seen.deleted) == (["Aborted"], {})
    assert "claimed" not in seen.recoveries[0]["status"]["times"]
    assert "stand-down" in words(seen, "ml/j")


def test_a_plugin_that_comes_between_claim_and_first_delete_gets_the_unit_too() -> None:
    seen = at(cluster(volcano_job()), 10)
    for name in (MASTER, WORKER):
        seen.refuse("delete", f"Pod/{name}", status=500, times=50)
    seen.report("a", [SEPARATE])
    seen.run_until(11)
    assert (phases(seen), seen.deleted) == (["Deleting"], {})
    seen.create(PLUGIN)
    seen.run_until(30)
    assert (phases(seen), seen.deleted) == (["Aborted"], {})


def test_a_plugin_that_comes_after_the_first_delete_finds_the_unit_finished() -> None:
    seen = at(cluster(volcano_job()), 10)
    seen.refuse("delete", f"Pod/{WORKER}", status=500, times=3)
    seen.report("a", [SEPARATE])
    seen.run_until(10.6)
    assert list(seen.deleted) == [MASTER]
    seen.create(PLUGIN)
    seen.run_until(60)
    assert seen.deleted == {MASTER: "force", WORKER: "force"}
    assert phases(seen) == ["Recovered"]


# LeaderWorkerSet: the loss of one pod makes its controller re-create the group


def lws_on_nodes() -> list[Object]:
    objects = lws()
    places = {"llm-0": "c", "llm-0-1": "d", "llm-1": "a", "llm-1-1": "b"}
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["spec"]["nodeName"] = places[obj["metadata"]["name"]]
    return objects


def test_the_controller_of_a_group_re_creates_it_as_well_and_its_new_pods_are_left_alone() -> None:
    seen = at(cluster(lws_on_nodes()), 10)
    seen.report("b", [SEPARATE])
    seen.run_until(15)
    assert seen.deleted == {"ml/llm-1": "force", "ml/llm-1-1": "force"}
    seen.delete("Pod/ml/llm-1")  # its answer to the worker's loss comes late and hits the new leader
    seen.run_until(60)
    assert seen.deleted == {"ml/llm-1": "force", "ml/llm-1-1": "force"}
    assert phases(seen) == ["Recovered"]


def test_a_group_that_its_controller_is_re_creating_is_only_finished() -> None:
    seen = at(cluster(lws_on_nodes()), 10)
    seen.delete("Pod/ml/llm-1")
    seen.run_until(10.5)
    seen.report("b", [SEPARATE])
    seen.run_until(12)
    assert seen.deleted == {"ml/llm-1-1": "force"}
    seen.run_until(60)
    assert phases(seen) == ["Recovered"]


# The node lifecycle controller evicts by taint: deletionTimestamp on pods that no kubelet will ever end


def dead(seen: VirtualCluster, name: str) -> None:
    seen.silence(name)
    seen.set_ready(name, "Unknown")


@pytest.mark.parametrize(
    ("objects", "hung", "forced"),
    [
        (job_with_pods("j", ("a", "b")), "j-master-0", {MASTER: "force", WORKER: "force"}),
        (stateful_set(), "db-0", {"ml/db-0": "force", "ml/db-1": "force"}),
        (deployment(), "web-7f-p1", {"ml/web-7f-p2": "force"}),
    ],
    ids=["AscendJob", "StatefulSet", "Deployment: replaced already"],
)
def test_what_eviction_leaves_hanging_on_a_dead_node_is_forced(
    objects: list[Object], hung: str, forced: dict[str, str]
) -> None:
    seen = cluster(objects)
    seen.stick("a")
    seen.run_until(10)
    seen.delete(f"Pod/ml/{hung}")
    seen.run_until(11)
    assert seen.deleted == {}, "its node is well: whoever deletes it has their reasons"
    dead(seen, "a")
    seen.run_until(70)
    assert seen.deleted == forced


def test_a_replacement_that_hangs_on_a_node_that_died_meanwhile_is_forced_too() -> None:
    seen = cluster(job_with_pods("j", ("a", "b")))
    seen.stick("node-x")
    seen.run_until(10)
    seen.report("a", [SEPARATE])
    seen.run_until(16)
    assert phases(seen) == ["Recreating"]
    dead(seen, "node-x")
    seen.run_until(20)
    seen.delete(f"Pod/{MASTER}")  # a person, before anybody knows that the node is dead
    seen.run_until(120)
    assert seen.deleted[f"{MASTER}#2"] == "force"
    assert phases(seen) == ["Recovered"]


def test_nothing_is_forced_on_a_node_whose_agent_speaks() -> None:
    seen = cluster(stateful_set())
    seen.stick("a")
    seen.run_until(10)
    seen.delete("Pod/ml/db-0")
    seen.run_until(200)
    assert seen.deleted == {}


# A person deletes pods


def test_a_person_who_deletes_the_whole_unit_first_leaves_nothing_to_do() -> None:
    seen = at(cluster(job_with_pods("j", ("a", "b"))), 10)
    seen.report("a", [REQUEST])
    seen.run_until(30)
    for name in (MASTER, WORKER):
        seen.delete(f"Pod/{name}")
    seen.run_until(120)
    assert (seen.deleted, seen.recoveries) == ({}, [])


def test_a_person_who_deletes_during_our_grace_is_not_outdone() -> None:
    seen = at(cluster(job_with_pods("j", ("a", "b"), labels={"fault-scheduling": "grace"})), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(12)
    assert seen.deleted == {MASTER: "grace", WORKER: "grace"}
    for name in (MASTER, WORKER):
        seen.delete(f"Pod/{name}")
    seen.run_until(60)
    assert seen.deleted == {MASTER: "grace", WORKER: "grace"}
    assert phases(seen) == ["Recovered"]


def test_a_person_who_deletes_a_replacement_is_waited_for() -> None:
    seen = at(cluster(job_with_pods("j", ("a", "b"))), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(16)
    seen.delete(f"Pod/{WORKER}")
    seen.run_until(60)
    assert seen.deleted == {MASTER: "force", WORKER: "force"}
    assert phases(seen) == ["Recovered"]


@pytest.mark.parametrize(
    ("objects", "target", "unit"),
    [
        (stateful_set(), "StatefulSet/ml/db", "ml/db/db-0"),
        (deployment(), "Deployment/ml/web", "ml/web/web-7f-p1"),
        (lws_on_nodes(), "LeaderWorkerSet/ml/llm", "ml/llm/llm-1"),
    ],
    ids=["StatefulSet", "Deployment", "LeaderWorkerSet"],
)
def test_what_a_person_has_scaled_to_0_is_left_to_end(objects: list[Object], target: str, unit: str) -> None:
    seen = at(cluster(objects), 5)
    seen.merge(target, {"spec": {"replicas": 0}})
    seen.report("a", [SEPARATE])
    seen.run_until(20)
    assert (seen.deleted, seen.recoveries) == ({}, [])
    assert words(seen, unit) == {"owner-deleted"}


def test_a_stateful_set_that_shrinks_keeps_only_its_first_pods() -> None:
    seen = at(cluster(stateful_set()), 5)
    seen.merge("StatefulSet/ml/db", {"spec": {"replicas": 1}})
    seen.report("a", [SEPARATE])
    seen.run_until(20)
    assert seen.deleted == {"ml/db-0": "force"}
    assert words(seen, "ml/db/db-1") == {"owner-deleted"}


# The kubelet evicts: the pod is Failed and stays there as a record


def evict(seen: VirtualCluster, name: str) -> None:
    seen.fail(name, exit_code=137)
    seen.merge(f"Pod/{name}", {"status": {"reason": "Evicted", "message": "The node was low on resource: memory."}})


def of_pod_set() -> list[Object]:
    service = storm_service("s")
    roles = role_set("s-r", service)
    whole = pod_set("s-r-p-0", roles)
    pods = [pod(f"s-r-p-0-{i}", on, whole, labels=FORCE) for i, on in enumerate(("a", "b"))]
    return [service, roles, whole, *pods]


@pytest.mark.parametrize(
    ("objects", "evicted", "unit"),
    [
        (deployment(), "ml/web-7f-p1", "ml/web/web-7f-p1"),
        (stateful_set(), "ml/db-1", "ml/db/db-1"),
    ],
    ids=["Deployment", "StatefulSet"],
)
def test_what_the_kubelet_evicts_and_its_controller_replaces_is_left_to_them(
    objects: list[Object], evicted: str, unit: str
) -> None:
    seen = at(cluster(objects), 10)
    evict(seen, evicted)
    seen.run_until(20)
    assert (seen.deleted, seen.recoveries) == ({}, [])
    assert words(seen, unit) == {"foreign-actor"}


def test_what_the_kubelet_evicts_and_nobody_replaces_is_restarted_and_named() -> None:
    seen = at(cluster(of_pod_set()), 10)
    evict(seen, "ml/s-r-p-0-1")
    seen.run_until(15)
    (recovery,) = seen.recoveries
    assert "Evicted" in recovery["spec"]["cause"]["faults"][0]
    assert recovery["status"]["charged"] == 1
    seen.run_until(60)
    assert phases(seen) == ["Recovered"]


# AIBrix


def test_a_pod_set_that_re_creates_its_pods_itself_loses_no_new_pod_to_us() -> None:
    seen = at(cluster(of_pod_set()), 10)
    seen.delete("Pod/ml/s-r-p-0-0")
    seen.run_until(14)
    seen.report("b", [SEPARATE])
    seen.run_until(60)
    assert "ml/s-r-p-0-1" in seen.deleted
    assert phases(seen) == ["Recovered"]


def test_a_workload_whose_owner_above_is_gone_is_left_to_the_garbage_collector() -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    objects = [obj for obj in of_pod_set() if obj["kind"] != "StormService"]
    assert owner_ref(service) in roles["metadata"]["ownerReferences"]
    seen = at(cluster(objects), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(20)
    assert (seen.deleted, seen.recoveries) == ({}, [])
    assert words(seen, "ml/s-r/s-r-p-0") == {"owner-deleted"}


def test_an_owner_of_a_kind_that_nobody_watches_is_no_reason_to_stay_off() -> None:
    above = owner("example.com/v1", "Platform", "p")
    top = owner("apps/v1", "StatefulSet", "db", above)
    seen = at(cluster([top, pod("db-0", "a", top, labels=FORCE)]), 10)
    seen.report("a", [SEPARATE])
    seen.run_until(12)
    assert seen.deleted == {"ml/db-0": "force"}
