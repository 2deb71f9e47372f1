"""Every kind of workload: which pods restart together; and what holds for all plugins."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.objects import Meta
from reconciler.core.recovery import Cause, Recovery, RecoverySpec
from reconciler.core.state import World
from reconciler.core.units import Index, NoUnit, Unit
from reconciler.workloads import WORKLOADS, members, unit_of
from tests.core.build import FORCE, Object, job_with_pods, owner_ref, pod, pod_set, role_set, storm_service
from tests.core.worlds import world_of


def owner(api_version: str, kind: str, name: str, above: Object | None = None, **more: Any) -> Object:
    meta: Object = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": {}}
    meta["ownerReferences"] = [owner_ref(above)] if above else []
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {}, "status": {}} | more


def deployment() -> list[Object]:
    top = owner("apps/v1", "Deployment", "web")
    replicas = owner("apps/v1", "ReplicaSet", "web-7f", top)
    return [top, replicas, *(pod(f"web-7f-{x}", "a", replicas, labels=FORCE) for x in ("p1", "p2"))]


def ome() -> list[Object]:
    service = owner("ome.io/v1beta1", "InferenceService", "chat")
    top = owner("apps/v1", "Deployment", "chat-engine", service)
    replicas = owner("apps/v1", "ReplicaSet", "chat-engine-5d", top)
    return [service, top, replicas, *(pod(f"chat-engine-5d-{x}", "a", replicas, labels=FORCE) for x in ("p1", "p2"))]


def stateful_set() -> list[Object]:
    top = owner("apps/v1", "StatefulSet", "db")
    return [top, *(pod(f"db-{i}", "a", top, labels=FORCE) for i in range(2))]


def volcano_job() -> list[Object]:
    top = owner("batch.volcano.sh/v1alpha1", "Job", "train")
    return [top, *(pod(f"train-{i}", "a", top, labels=FORCE) for i in range(3))]


def lws() -> list[Object]:
    """Two groups of a leader and a worker; each worker has a StatefulSet of its own, owned by its leader."""
    top = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm", spec={"leaderWorkerTemplate": {"size": 2}})
    leaders = owner("apps/v1", "StatefulSet", "llm", top)
    leaders["metadata"]["uid"] = "uid-llm-leaders"
    found = [top, leaders]
    for group in range(2):
        labels = FORCE | {
            "leaderworkerset.sigs.k8s.io/name": "llm",
            "leaderworkerset.sigs.k8s.io/group-index": str(group),
        }
        leader = pod(f"llm-{group}", "a", leaders, labels=labels)
        workers = owner("apps/v1", "StatefulSet", f"llm-{group}", leader)
        workers["metadata"]["uid"] = f"uid-llm-{group}-workers"
        found += [leader, workers, pod(f"llm-{group}-1", "b", workers, labels=labels)]
    return found


def infer_operator(*, running: bool = False) -> list[Object]:
    top = owner("mindcluster.huawei.com/v1", "InferServiceSet", "my")
    service = owner("mindcluster.huawei.com/v1", "InferService", "my-0", top)
    instances = owner("mindcluster.huawei.com/v1", "InstanceSet", "my-0-prefill", service)
    found = [top, service, instances]
    for i in range(2):
        workload = owner("apps/v1", "StatefulSet", f"my-0-prefill-{i}", instances)
        labels = FORCE | {"infer.huawei.com/inferservice-name": "my-0"}
        found += [workload, *(pod(f"my-0-prefill-{i}-{j}", "a", workload, labels=labels) for j in range(2))]
    operator = owner("apps/v1", "Deployment", "infer-operator", status={"availableReplicas": int(running)})
    operator["metadata"]["namespace"] = "mindx-dl"
    return [*found, operator]


def storm() -> list[Object]:
    service = storm_service("s")
    roles = role_set("s-r", service)
    whole = pod_set("s-r-p-0", roles)
    return [service, roles, whole, *(pod(f"s-r-p-0-{i}", "a", whole, labels=FORCE) for i in range(2))]


def mixed_storm() -> list[Object]:
    """Two roles of size 1 in one RoleSet: the routers restart one by one, the decodes together."""
    service = storm_service("m")
    roles = role_set("m-r", service)
    alone = FORCE | {"pod-rescheduling": "on"}
    roles["spec"]["roles"] = [
        {"name": "router", "replicas": 2, "template": {"metadata": {"labels": alone}}},
        {"name": "decode", "replicas": 2, "template": {"metadata": {"labels": dict(FORCE)}}},
        {"name": "prefill", "replicas": 1, "podGroupSize": 2},
    ]
    decodes = [pod(f"m-r-decode-{i}", "b", roles, labels=FORCE) for i in range(2)]
    return [service, roles, *decodes, *(pod(f"m-r-router-{i}", "a", roles, labels=alone) for i in range(2))]


def unit(world: World, name: str) -> Unit:
    found = unit_of(world.pods[f"ml/{name}"], Index(world.snapshot()))
    assert isinstance(found, Unit), found
    return found


@pytest.mark.parametrize(
    ("objects", "hit", "unit_id", "level", "pods", "workload"),
    [
        (deployment(), "web-7f-p1", "ml/web/web-7f-p1", "Pod", ["web-7f-p1"], "Deployment"),
        (ome(), "chat-engine-5d-p2", "ml/chat/chat-engine-5d-p2", "Pod", ["chat-engine-5d-p2"], "InferenceService"),
        (stateful_set(), "db-1", "ml/db/db-1", "Pod", ["db-1"], "StatefulSet"),
        (volcano_job(), "train-1", "ml/train", "Job", ["train-0", "train-1", "train-2"], "Job"),
        (lws(), "llm-1-1", "ml/llm/llm-1", "Instance", ["llm-1", "llm-1-1"], "LeaderWorkerSet"),
        (lws(), "llm-0", "ml/llm/llm-0", "Instance", ["llm-0", "llm-0-1"], "LeaderWorkerSet"),
        (
            infer_operator(),
            "my-0-prefill-1-0",
            "ml/my/my-0-prefill-1",
            "Instance",
            ["my-0-prefill-1-0", "my-0-prefill-1-1"],
            "InferServiceSet",
        ),
        (mixed_storm(), "m-r-router-1", "ml/m/m-r-router-1", "Pod", ["m-r-router-1"], "StormService"),
        (mixed_storm(), "m-r-decode-1", "ml/m/m-r", "Instance", ["m-r-decode-0", "m-r-decode-1"], "StormService"),
    ],
    ids=[
        "Deployment",
        "OME",
        "StatefulSet",
        "Volcano Job",
        "LWS worker",
        "LWS leader",
        "infer-operator",
        "role that restarts by pod",
        "role beside it",
    ],
)
def test_what_restarts_together(
    objects: list[Object], hit: str, unit_id: str, level: str, pods: list[str], workload: str
) -> None:
    found = unit(world_of(objects), hit)
    assert (found.id, found.level, [p.metadata.name for p in found.pods]) == (unit_id, level, pods)
    assert (found.workload.kind, found.blocked) == (workload, None)
    assert found.size in (0, len(pods))


def test_the_size_of_a_role_set_is_without_the_pods_that_restart_alone() -> None:
    objects = mixed_storm()
    assert unit(world_of(objects), "m-r-decode-0").size == 2
    for role in objects[1]["spec"]["roles"]:  # the routers were labelled by hand
        role.pop("template", None)
    assert unit(world_of(objects), "m-r-decode-0").size == 2


@pytest.mark.parametrize("running", [False, True])
def test_a_unit_says_whether_its_operator_runs(running: bool) -> None:
    found = unit(world_of(infer_operator(running=running)), "my-0-prefill-0-0")
    assert (found.operator, found.blocked) == (running, None)
    assert unit(world_of(job_with_pods("j", ("a",))), "j-master-0").operator is None


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted"])
def test_a_volcano_job_in_a_final_phase_is_not_restarted(phase: str) -> None:
    objects = volcano_job()
    objects[0]["status"] = {"state": {"phase": phase}}
    blocked = unit(world_of(objects), "train-0").blocked
    assert blocked is not None
    assert blocked[0] == "owner-terminal"


RESTART = [{"event": "PodEvicted", "action": "RestartJob"}]


@pytest.mark.parametrize(
    ("spec", "retried", "left"),
    [
        ({}, 2, None),
        ({"policies": [{"event": "PodFailed", "action": "RestartJob"}], "maxRetry": 3}, 2, None),
        ({"policies": RESTART, "maxRetry": 3}, 0, 2),
        ({"policies": RESTART, "maxRetry": 3}, 2, 0),
        ({"policies": RESTART}, 2, 0),
        ({"policies": RESTART, "maxRetry": 100}, 2, 97),
        ({"policies": [{"events": ["PodFailed", "*"], "action": "RestartJob"}], "maxRetry": 1}, 0, 0),
        ({"policies": [{"event": "*", "action": "RestartTask"}, *RESTART]}, 2, None),
        ({"tasks": [{"policies": RESTART}, {}]}, 2, 0),
        ({"policies": RESTART, "tasks": [{"policies": [{"event": "*", "action": "RestartTask"}]}]}, 2, None),
        ({"policies": RESTART, "tasks": [{"name": "w"}]}, 2, 0),
        ({"policies": "x", "tasks": [3], "maxRetry": "many"}, "some", None),
    ],
)
def test_restarts_that_volcano_still_allows(spec: Object, retried: object, left: int | None) -> None:
    objects = volcano_job()
    objects[0] |= {"spec": spec, "status": {"state": {"phase": "Running"}, "retryCount": retried}}
    found = unit(world_of(objects), "train-0")
    assert found.rounds_left == left
    assert (found.blocked or ("",))[0] == ("backoff-limit" if left == 0 else "")


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
@pytest.mark.parametrize(
    ("job", "task", "ends"),
    [
        ([{"event": "PodEvicted"}], [], True),
        ([{"events": ["PodFailed", "*"]}], [], True),
        ([], [{"event": "PodEvicted"}], True),
        ([{"event": "PodEvicted"}], [{"event": "*", "action": "RestartTask"}], False),
        ([{"event": "PodFailed"}], [{"event": "TaskCompleted"}], False),
        ([*RESTART, {"event": "PodEvicted"}], [], False),
        ([{"exitCode": 3}], [], False),
    ],
)
def test_a_volcano_job_that_a_deleted_pod_would_end_is_left_alone(
    job: list[Object], task: list[Object], ends: bool, action: str
) -> None:
    objects = volcano_job()
    whole, of_task = ([{"action": action} | policy for policy in policies] for policies in (job, task))
    objects[0]["spec"] = {"policies": whole, "maxRetry": 100, "tasks": [{"name": "w", "policies": of_task}]}
    reason, message = unit(world_of(objects), "train-0").blocked or ("", "")
    assert (reason, action in message) == (("policy-ends-job", True) if ends else ("", False))


def test_an_ordinary_kubernetes_job_is_not_taken_for_a_volcano_job() -> None:
    job = owner("batch/v1", "Job", "once")
    world = world_of([job, pod("once-x", "a", job, labels=FORCE)])
    found = unit_of(world.pods["ml/once-x"], Index(world.snapshot()))
    assert isinstance(found, NoUnit)
    assert found.reason == "no-owner"


ALL = {
    "AscendJob": lambda: job_with_pods("j", ("a", "b")),
    "StormService": storm,
    "StormService by pod and by role": mixed_storm,
    "Deployment": deployment,
    "OME": ome,
    "StatefulSet": stateful_set,
    "Volcano Job": volcano_job,
    "LWS": lws,
    "infer-operator": infer_operator,
}


def fleet() -> World:
    return world_of([obj for make in ALL.values() for obj in make()])


def test_units_are_disjoint_and_cover_every_pod_of_a_known_kind() -> None:
    world = fleet()
    index = Index(world.snapshot())
    found = {u.key: u for p in world.pods.values() if isinstance(u := unit_of(p, index), Unit)}
    claimed = [p.metadata.name for u in found.values() for p in u.pods]
    assert sorted(claimed) == sorted(p.metadata.name for p in world.pods.values())


@pytest.mark.parametrize("kind", ALL)
def test_a_unit_is_the_same_from_each_of_its_pods_and_again(kind: str) -> None:
    world = fleet()
    for obj in ALL[kind]():
        if obj["kind"] != "Pod":
            continue
        index = Index(world.snapshot())
        first = unit_of(world.pods[f"ml/{obj['metadata']['name']}"], index)
        assert isinstance(first, Unit)
        for member in first.pods:
            assert unit_of(member, Index(world.snapshot())) == first


@pytest.mark.parametrize("kind", ALL)
def test_the_pods_of_a_recovery_are_those_of_its_unit(kind: str) -> None:
    """Between delete and re-creation a recovery finds its new pods by what it wrote down, not by its old pods."""
    world = fleet()
    first = next(obj for obj in ALL[kind]() if obj["kind"] == "Pod")
    whole = unit(world, first["metadata"]["name"])
    spec = RecoverySpec(
        whole.workload,
        whole.id,
        whole.level,
        "force",
        Cause("Hardware"),
        instance=whole.instance,
        controller=whole.controller,
    )
    recovery = Recovery(Meta("r", namespace="ml"), spec)
    names = {p.metadata.name for p in members(recovery, Index(world.snapshot()))}
    assert {p.metadata.name for p in whole.pods} <= names
    if whole.level != "Pod":
        assert {p.metadata.name for p in whole.pods} == names


def test_every_plugin_says_what_it_claims() -> None:
    assert all(plugin.kinds and (plugin.controllers or plugin.label) for plugin in WORKLOADS.values())
