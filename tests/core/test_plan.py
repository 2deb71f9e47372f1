"""Which episodes open and which do not, and why: one snapshot, one plan."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reconciler.core import clock, fold
from reconciler.core.actions import Isolate, OpenRecovery, Progress
from reconciler.core.objects import Meta
from reconciler.core.policy import Isolation, Policy
from reconciler.core.recovery import Recovery, RecoverySpec, RecoveryStatus
from reconciler.core.state import World
from shared.model import Chip, Fault, FaultLevel
from tests.core.build import FORCE, ascend_job, job_with_pods, node, pod, pod_set, role_set, storm_service
from tests.core.worlds import T0, a_fault, after, decide, hear, kinds, reasons, report, world_of

NODES = [node(name) for name in "abcd"]


def job(*, labels: dict[str, str] | None = None, policy: Policy | None = None) -> World:
    world = world_of([*NODES, *job_with_pods("j", ("a", "b"), labels=labels)], policy=policy)
    hear(world, *(report(name) for name in "abcd"))
    return world


def strike(world: World, *faults: Fault, on: str = "a", seq: int = 2) -> None:
    hear(world, report(on, *faults, seq=seq))


def opened(world: World, at_s: float = 0.0) -> list[OpenRecovery]:
    return [action for action in decide(world, after(at_s)).actions if isinstance(action, OpenRecovery)]


def test_a_separate_fault_taints_the_node_and_opens_one_recovery() -> None:
    world = job()
    strike(world, a_fault())
    decided = decide(world)
    assert [kind.split()[0] for kind in kinds(decided)] == ["Isolate", "OpenRecovery"]
    (isolate,) = (action for action in decided.actions if isinstance(action, Isolate))
    assert (isolate.want.effect, isolate.want.value) == ("NoSchedule", "SeparateNPU")
    (recovery,) = opened(world)
    assert (recovery.spec.unit, recovery.spec.level, recovery.spec.method) == ("ml/j", "Job", "force")
    assert recovery.spec.targets == ()
    assert (recovery.status.phase, recovery.status.charged) == ("Isolating", 0)


def test_planning_twice_gives_the_same_answer() -> None:
    world = job()
    strike(world, a_fault())
    assert decide(world) == decide(world)


@pytest.mark.parametrize(
    ("level", "at_s", "restarts"),
    [
        (FaultLevel.NOT_HANDLE, 100, False),
        (FaultLevel.SUB_HEALTH, 100, False),
        (FaultLevel.RESTART_REQUEST, 59, False),
        (FaultLevel.RESTART_REQUEST, 60, False),
        (FaultLevel.RESTART_REQUEST, 61, True),
        (FaultLevel.RESTART_BUSINESS, 0, True),
        (FaultLevel.FREE_RESTART_NPU, 0, True),
        (FaultLevel.RESTART_NPU, 0, True),
        (FaultLevel.PRE_SEPARATE_NPU, 100, False),
        (FaultLevel.SEPARATE_NPU, 0, True),
        (FaultLevel.MANUALLY_SEPARATE_NPU, 0, True),
    ],
)
def test_each_level_restarts_as_its_row_says(level: FaultLevel, at_s: float, restarts: bool) -> None:
    world = job()
    strike(world, a_fault(level=level))
    decide(world)
    for name in "abcd":  # the agents go on reporting
        hear(world, report(name, *([a_fault(level=level)] if name == "a" else []), seq=3), at=after(at_s))
    assert bool(opened(world, at_s)) is restarts


def test_an_unconfirmed_fault_taints_only() -> None:
    world = job()
    strike(world, a_fault(confirmed=False))
    decided = decide(world)
    assert [kind.split()[0] for kind in kinds(decided)] == ["Isolate"]
    assert reasons(decided, "ml/j") == ["unconfirmed"]


def test_a_network_fault_keeps_work_away_and_restarts_nothing() -> None:
    world = job()
    world.network_codes = frozenset({"81078603"})
    strike(world, a_fault(code="81078603", level=FaultLevel.SEPARATE_NPU))
    assert kinds(decide(world)) == ["Isolate Node/a"]


def test_two_faults_in_one_unit_are_one_recovery() -> None:
    world = job()
    strike(world, a_fault(1), a_fault(2), on="a")
    strike(world, a_fault(4), on="b")
    (recovery,) = opened(world)
    assert recovery.spec.cause.nodes == ("a", "b")
    assert len(recovery.spec.cause.faults) == 3


@pytest.mark.parametrize(
    ("chips", "held", "restarts"),
    [
        ((0, 3), (), True),
        ((0, 1), (), False),
        (None, (3,), True),
        (None, (1,), False),
        (None, (), True),
        ((), (), False),
    ],
    ids=["annotation", "other chips", "kubelet", "kubelet, other chip", "NPUs, nobody knows which", "no NPUs"],
)
def test_only_pods_that_use_the_chip_are_hit(
    chips: tuple[int, ...] | None, held: tuple[int, ...], restarts: bool
) -> None:
    job_object, _ = job_with_pods("j", ("a",))
    world = world_of([*NODES, job_object, pod("j-master-0", "a", job_object, chips=chips)])
    mapped = tuple(Chip(phy=phy, health="ok", pods=("uid-j-master-0",)) for phy in held)
    hear(world, *(report(name) for name in "bcd"), report("a", a_fault(3), chips=mapped))
    assert bool(opened(world)) is restarts
    assert reasons(decide(world), "ml/j") == ([] if restarts else ["chip-not-used"])


@pytest.mark.parametrize(("held", "restarts"), [((3,), True), ((1,), False), ((), True)])
def test_an_annotation_that_can_be_read_in_part_alone_says_nothing(held: tuple[int, ...], restarts: bool) -> None:
    job_object, pod_object = job_with_pods("j", ("a",))
    pod_object["metadata"]["annotations"]["huawei.com/AscendReal"] = "Ascend910-1,Ascend910_3"
    world = world_of([*NODES, job_object, pod_object])
    mapped = tuple(Chip(phy=phy, health="ok", pods=("uid-j-master-0",)) for phy in held)
    hear(world, *(report(name) for name in "bcd"), report("a", a_fault(3), chips=mapped))
    assert bool(opened(world)) is restarts


def test_a_node_fault_hits_pods_without_chips_too() -> None:
    job_object, _ = job_with_pods("j", ("a",))
    world = world_of([*NODES, job_object, pod("j-master-0", "a", job_object, chips=())])
    hear(world, *(report(name) for name in "bcd"), report("a", a_fault("node", "NW-X")))
    assert [recovery.spec.cause.kind for recovery in opened(world)] == ["Node"]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({}, "label-missing"),
        ({"fault-scheduling": "off"}, "label-off"),
        ({"fault-scheduling": "FORCE"}, "label-invalid"),
    ],
)
def test_without_the_wish_nothing_restarts_and_the_plan_says_why(labels: dict[str, str], reason: str) -> None:
    world = job(labels=labels)
    strike(world, a_fault())
    decided = decide(world)
    assert kinds(decided) == ["Isolate Node/a"]
    assert reasons(decided, "ml/j") == [reason]


def failed_pod_set(retries: str | None) -> World:
    service = storm_service("s")
    roles = role_set("s-r", service)
    whole = pod_set("s-r-p-0", roles)
    labels = {"fault-scheduling": "force"} | ({} if retries is None else {"fault-retry-times": retries})
    pods: list[dict[str, Any]] = [
        pod("s-r-p-0-0", "a", whole, labels=labels),
        pod("s-r-p-0-1", "b", whole, labels=labels, phase="Failed", ready=False),
    ]
    world = world_of([*NODES, service, roles, whole, *pods])
    hear(world, *(report(name) for name in "abcd"))
    return world


def test_a_failed_pod_restarts_its_unit_and_is_charged() -> None:
    world = failed_pod_set("2")
    (recovery,) = opened(world)
    assert (recovery.spec.cause.kind, recovery.status.charged) == ("Software", 1)
    assert recovery.spec.cause.nodes == ()


@pytest.mark.parametrize("retries", [None, "0", "x"])
def test_a_failed_pod_without_retries_stays(retries: str | None) -> None:
    decided = decide(failed_pod_set(retries))
    assert kinds(decided) == []
    assert reasons(decided, "ml/s/s-r-p-0") == ["retry-disabled"]


def test_a_contradiction_of_the_retries_is_told_with_its_values() -> None:
    job_object = ascend_job("j", replicas=1, labels=FORCE | {"fault-retry-times": "10"})
    failed = pod("j-master-0", "a", job_object, labels=FORCE | {"fault-retry-times": "9"}, phase="Failed", ready=False)
    decided = decide(world_of([*NODES, job_object, failed]))
    assert [hold.message for hold in decided.holds if hold.reason == "retry-disabled"] == [
        "a pod Failed, and label fault-retry-times has different values: 9, 10"
    ]


def test_hardware_and_software_at_once_are_hardware_and_cost_nothing() -> None:
    world = failed_pod_set("1")
    strike(world, a_fault(), on="b")
    (recovery,) = opened(world)
    assert (recovery.spec.cause.kind, recovery.status.charged) == ("Hardware", 0)


def test_used_retries_are_counted_from_recoveries() -> None:
    world = failed_pod_set("1")
    (recovery,) = opened(world)
    raw = {
        "kind": "Recovery",
        "metadata": {"name": recovery.name, "namespace": "ml", "uid": "r1"},
        "spec": msgspec.to_builtins(recovery.spec),
        "status": {"phase": "Recovered", "charged": 1},
    }
    again = failed_pod_set("1")
    fold.observe(again, "Recovery", "set", raw)
    decided = decide(again)
    (given_up,) = opened(again)
    assert (given_up.status.phase, given_up.status.reason) == ("Exhausted", "retries-exhausted")
    assert "retries-exhausted" in reasons(decided, "ml/s/s-r-p-0")


def test_pause_refuses_both_hands_and_says_so() -> None:
    world = job()
    world.paused = "network work until 6"
    strike(world, a_fault())
    decided = decide(world)
    assert kinds(decided) == []
    assert reasons(decided, "ml/j") == ["paused"]
    assert reasons(decided, "a") == ["paused"]


def test_observe_only_plans_and_does_nothing() -> None:
    world = job(policy=Policy(observe_only=True))
    strike(world, a_fault())
    decided = decide(world)
    assert decided.actions == ()
    assert {hold.reason for hold in decided.holds} == {"observe-only"}


def test_a_dead_node_restarts_what_ran_there() -> None:
    world = world_of([node("a", ready="Unknown"), *NODES[1:], *job_with_pods("j", ("a", "b"))])
    hear(world, *(report(name) for name in "bcd"))
    hear(world, report("a"), at=after(-100))
    decided = decide(world)
    assert [kind.split()[0] for kind in kinds(decided)] == ["Isolate", "OpenRecovery"]


def test_silence_on_a_ready_node_restarts_nothing() -> None:
    world = job()
    for t in range(0, 4000, 100):
        decided = decide(world, after(t))
        assert kinds(decided) == []


def test_sub_health_restarts_only_where_the_label_wishes_it() -> None:
    for strategy, method in (("ignore", None), ("graceExit", "grace"), ("forceExit", "force"), ("GraceExit", None)):
        world = job(labels=FORCE | {"subHealthyStrategy": strategy})
        strike(world, a_fault(level=FaultLevel.SUB_HEALTH))
        assert [recovery.spec.method for recovery in opened(world)] == ([method] if method else [])


def test_the_hold_down_counts_from_the_heal_however_long_ago_the_last_plan_was() -> None:
    world = job(policy=Policy(isolate=Isolation(hold_down_s=60)))
    strike(world, a_fault())
    decide(world)
    tainted = node("a")
    tainted["spec"]["taints"] = [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]
    fold.observe(world, "Node", "set", tainted)
    decide(world)
    for t, released in ((20, False), (79, False), (81, True)):
        for name in "abcd":
            hear(world, report(name, seq=10 + t), at=after(t))
        assert any(kind.startswith("Release") for kind in kinds(decide(world, after(t)))) is released


def test_a_new_leader_goes_on_with_the_hold_down_that_the_record_states() -> None:
    tainted = node("a")
    tainted["spec"]["taints"] = [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]
    until = clock.seconds(T0.wall + 30)
    record = {"session": "s", "since": "2026-01-01T00:00:00Z", "hold_until": until}
    tainted["metadata"]["annotations"] = {"npuwarden.io/isolation": msgspec.json.encode(record).decode()}
    world = world_of([tainted, *NODES[1:]])
    for t, released in ((0, False), (29, False), (31, True)):
        for name in "abcd":
            hear(world, report(name, seq=1 + t), at=after(t))
        assert any(kind.startswith("Release") for kind in kinds(decide(world, after(t)))) is released


def coordinator(*, ready: bool = True, phase: str = "Running", on: str | None = "c") -> list[dict[str, Any]]:
    """An active and a standby that restart alone; master-0 is given as it is after its restart."""
    labels = FORCE | {"fault-retry-times": "100", "pod-rescheduling": "on", "app": "mindie-ms-coordinator"}
    owner, _, worker = job_with_pods("j", ("a", "b"), labels=labels)
    return [owner, worker, pod("j-master-0", on, owner, uid="uid-new", ready=ready, phase=phase, chips=())]


def pod_recovery(world: World, **times: float) -> None:
    """The pod-level recovery of master-0, in phase Recreating."""
    stamped = {name: clock.rfc3339(T0.wall + at) for name, at in times.items()}
    owner = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "j", "uid": "uid-j"}
    raw = {
        "kind": "Recovery",
        "metadata": {"name": "j-1", "namespace": "ml", "uid": "r1"},
        "spec": {
            "workload": owner,
            "controller": owner,
            "unit": "ml/j",
            "instance": "j-master-0",
            "level": "Pod",
            "method": "force",
            "size": 1,
            "cause": {"kind": "Node", "faults": ["node a is dead"], "nodes": []},
            "targets": [{"pod": "j-master-0", "uid": "uid-old"}],
        },
        "status": {"phase": "Recreating", "holder": "me", "times": stamped},
    }
    fold.observe(world, "Recovery", "set", raw)


@pytest.mark.parametrize(
    ("replacement", "times", "at_s", "escalates"),
    [
        ({"phase": "Failed", "ready": False}, {"bound": 0}, 1, True),
        ({"ready": False}, {"bound": 0}, 599, False),
        ({"ready": False}, {"bound": 0}, 601, True),
        ({"ready": True}, {"bound": 0}, 601, False),
        ({"ready": False, "on": None, "phase": "Pending"}, {"recreated": 0}, 59, False),
        ({"ready": False, "on": None, "phase": "Pending"}, {"recreated": 0}, 61, True),
    ],
    ids=["fails again", "not Ready yet", "not Ready for 600 s", "Ready", "not bound yet", "not bound for 60 s"],
)
def test_a_pod_that_does_not_come_back_takes_its_job_along(
    replacement: dict[str, Any], times: dict[str, float], at_s: float, escalates: bool
) -> None:
    world = world_of([*NODES, *coordinator(**replacement)])
    pod_recovery(world, gone=0, **times)
    decide(world)
    hear(world, *(report(name) for name in "abcd"), at=after(at_s))
    phases = [action.status.phase for action in decide(world, after(at_s)).actions if isinstance(action, Progress)]
    assert ("Escalated" in phases) is escalates


def test_a_job_that_follows_is_asked_for_its_label_until_the_first_delete() -> None:
    world = world_of([*NODES, *coordinator(ready=False)])
    pod_recovery(world, gone=0, bound=0)
    decide(world)
    hear(world, *(report(name) for name in "abcd"), at=after(601))
    (ended,) = (action for action in decide(world, after(601)).actions if isinstance(action, Progress))
    fold.observe(world, "Recovery", "set", as_seen("j-1", "r1", ended.recovery.spec, ended.status))
    (follows,) = opened(world, 602)
    fold.observe(world, "Recovery", "set", as_seen(follows.name, "r2", follows.spec, follows.status))
    switch_off(world)
    (aborted,) = (action for action in decide(world, after(602)).actions if isinstance(action, Progress))
    assert (aborted.status.phase, aborted.status.reason) == ("Aborted", "label-off")


def as_seen(name: str, uid: str, spec: RecoverySpec, status: RecoveryStatus) -> dict[str, Any]:
    recovery = Recovery(Meta(name, namespace="ml", uid=uid), spec, status)
    return {"kind": "Recovery", **msgspec.to_builtins(recovery)}


def switch_off(world: World) -> None:
    for obj in coordinator(ready=False):
        obj["metadata"]["labels"]["fault-scheduling"] = "off"
        if obj["kind"] == "Pod":
            del obj["metadata"]["labels"]["fault-scheduling"]
        fold.observe(world, obj["kind"], "set", obj)


def test_missing_capacity_alone_escalates_nothing() -> None:
    objects = coordinator(ready=False, on=None, phase="Pending")
    objects[-1]["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    world = world_of([*NODES, *objects])
    pod_recovery(world, gone=0, recreated=0)
    hear(world, *(report(name) for name in "abcd"), at=after(2000))
    (progress,) = (action for action in decide(world, after(2000)).actions if isinstance(action, Progress))
    assert progress.status.phase == "WaitingForCapacity"


@pytest.mark.parametrize(
    ("plugins", "scheduler", "reason"),
    [
        ("volcano-npu_v7.3.0", "volcano", ["stand-down"]),
        ("volcano-npu", "default-scheduler", []),
        ("gang", "volcano", []),
        ("gang}]}]\n  # - name: volcano-npu_v6.0.0\n#", "volcano", []),
    ],
    ids=["plugin", "another scheduler", "no plugin", "commented out"],
)
def test_beside_mindclusters_scheduler_plugin_the_warden_only_taints(
    plugins: str, scheduler: str, reason: list[str]
) -> None:
    objects = job_with_pods("j", ("a", "b"))
    for obj in objects[1:]:
        obj["spec"]["schedulerName"] = scheduler
    world = world_of([*NODES, *objects])
    config = {"metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}}
    config |= {"data": {"volcano-scheduler.conf": f"tiers: [{{plugins: [{{name: {plugins}}}]}}]"}}
    fold.observe(world, "VolcanoSchedulerConfig", "set", config)
    hear(world, *(report(name) for name in "bcd"), report("a", a_fault()))
    decided = decide(world)
    assert "Isolate Node/a" in kinds(decided)
    assert reasons(decided, "ml/j") == reason
    assert len(kinds(decided)) == (1 if reason else 2)
