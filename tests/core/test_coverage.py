"""Which workloads would be saved: a row for every gap, and agreement with what the plan then really does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.actions import OpenRecovery
from reconciler.core.coverage import Covered, coverage
from reconciler.core.policy import LevelOverride, Policy
from reconciler.core.recovery import FINISHED_PHASES
from reconciler.core.state import World
from reconciler.core.units import Index, Unit
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from tests.core.build import (
    FORCE,
    Object,
    ascend_job,
    job_with_pods,
    node,
    owner_ref,
    pod,
    pod_set,
    role_set,
    storm_service,
)
from tests.core.worlds import T0, a_fault, after, decide, hear, report, world_of

NODES = "abcdef"
LONG_S = 61.0
"""A fault that may pass has to last longer than a minute."""
ALWAYS = {"restartPolicy": "Always"}


def fleet(*names: str) -> list[Object]:
    return [node(name) for name in names or NODES]


def rows(*objects: Object, policy: Policy | None = None, **world: Any) -> list[Covered]:
    made = world_of(objects, policy=policy)
    for key, value in world.items():
        setattr(made, key, value)
    return coverage(made.snapshot(), T0)


def one(*objects: Object, policy: Policy | None = None, **world: Any) -> Covered:
    found = rows(*objects, policy=policy, **world)
    assert len(found) == 1, found
    return found[0]


def gaps(row: Covered) -> dict[str, tuple[str, ...]]:
    return {gap.reason: gap.faults for gap in row.gaps}


def handled(row: Covered) -> list[bool | None]:
    return [None if answer is None else answer.handled for answer in (row.chip, row.node, row.software)]


def owner(api_version: str, kind: str, name: str, above: Object | None = None) -> Object:
    references = [owner_ref(above)] if above else []
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": {}, "ownerReferences": references}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {}, "status": {}}


def deployment(name: str, nodes: tuple[str, ...], labels: dict[str, str], **spec: Any) -> list[Object]:
    top = owner("apps/v1", "Deployment", name)
    replicas = owner("apps/v1", "ReplicaSet", f"{name}-7f", top)
    pods = [pod(f"{name}-7f-{i}", on, replicas, labels=labels) for i, on in enumerate(nodes)]
    for made in pods:
        made["spec"] |= ALWAYS | spec
    return [top, replicas, *pods]


def storm(name: str, nodes: tuple[str, ...], labels: dict[str, str], *, size: int = 2) -> list[Object]:
    service = storm_service(name)
    roles = role_set(f"{name}-r", service)
    if size == 1:
        return [service, roles, *(pod(f"{name}-{i}", on, roles, labels=labels) for i, on in enumerate(nodes))]
    whole = pod_set(f"{name}-r-p-0", roles, size=len(nodes))
    return [service, roles, whole, *(pod(f"{name}-{i}", on, whole, labels=labels) for i, on in enumerate(nodes))]


def test_a_covered_workload() -> None:
    row = one(*fleet(), *job_with_pods("j", ("a", "b")))
    assert (row.namespace, row.workload, row.kind, row.level, row.units) == ("ml", "j", "AscendJob", "Job", ("ml/j",))
    assert (row.pods, row.npus, row.gaps) == (2, 16, ())
    for answer in (row.chip, row.node, row.software):
        assert answer is not None
        assert (answer.handled, answer.by, answer.level, answer.method) == (True, "warden", "Job", "force")


ALL = ("chip", "node", "software")
HARD = ("chip", "node")
LABELS: list[tuple[str, dict[str, str], dict[str, tuple[str, ...]]]] = [
    ("no label", {}, {"label-missing": ALL}),
    ("wrong case", {"fault-scheduling": "Force"}, {"label-invalid": ALL}),
    ("unknown value", {"fault-scheduling": "now"}, {"label-invalid": ALL}),
    ("for the infer-operator", {"fault-scheduling": "external-force"}, {"label-invalid": ALL}),
    ("no retries", {"fault-scheduling": "force"}, {"retry-disabled": ("software",)}),
    ("retries 0", {"fault-scheduling": "force", "fault-retry-times": "0"}, {"retry-disabled": ("software",)}),
    ("retries no number", {"fault-scheduling": "grace", "fault-retry-times": "x"}, {"retry-disabled": ("software",)}),
    ("one round left", {"fault-scheduling": "force", "fault-retry-times": "1"}, {"terminal-soon": ALL}),
    ("off by choice", {"fault-scheduling": "off"}, {}),
]


@pytest.mark.parametrize(("labels", "expected"), [case[1:] for case in LABELS], ids=[case[0] for case in LABELS])
def test_what_labels_leave_open(labels: dict[str, str], expected: dict[str, tuple[str, ...]]) -> None:
    row = one(*fleet(), *job_with_pods("j", ("a", "b"), labels=labels))
    assert gaps(row) == expected
    assert row.node is not None
    assert row.node.handled == (labels.get("fault-scheduling") in ("force", "grace"))


def test_values_that_contradict_each_other() -> None:
    job, *pods = job_with_pods("j", ("a", "b"))
    pods[0]["metadata"]["labels"]["fault-scheduling"] = "grace"
    row = one(*fleet(), job, *pods)
    assert gaps(row) == {"label-invalid": ALL}
    assert "different values: force, grace" in row.gaps[0].message


def test_a_first_crash_ends_an_ascend_job_without_retries() -> None:
    job = one(*fleet(), *job_with_pods("j", ("a",), labels={"fault-scheduling": "force"}))
    other = one(*fleet(), *storm("s", ("a", "b"), {"fault-scheduling": "force"}))
    assert "ends the job" in job.gaps[0].message
    assert gaps(other) == {"retry-disabled": ("software",)}
    assert "ends the job" not in other.gaps[0].message


def with_status(condition: str) -> list[Object]:
    job, *pods = job_with_pods("j", ("a",))
    job["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    return [job, *pods]


def leaving() -> list[Object]:
    job, *pods = job_with_pods("j", ("a",))
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [job, *pods]


def out_of_rounds(version: int) -> list[Object]:
    job = ascend_job("j", labels=FORCE, replicas=1)
    return [job, pod("j-master-0", "a", job, labels={"version": str(version)})]


def ended_by_a_delete() -> list[Object]:
    job = owner("batch.volcano.sh/v1alpha1", "Job", "train")
    job["spec"] = {"policies": [{"event": "PodEvicted", "action": "AbortJob"}]}
    return [job, pod("train-0", "a", job, labels=FORCE)]


BLOCKED: list[tuple[str, Callable[[], list[Object]], str]] = [
    ("terminal", lambda: with_status("Failed"), "owner-terminal"),
    ("being deleted", leaving, "owner-deleted"),
    ("no rounds left", lambda: out_of_rounds(3), "backoff-limit"),
    ("a delete ends it", ended_by_a_delete, "policy-ends-job"),
    ("a bare pod", lambda: [pod("p", "a", None)], "no-owner"),
    ("an orphan", lambda: job_with_pods("j", ("a",))[1:], "owner-deleted"),
    ("a DaemonSet", lambda: [ds := owner("apps/v1", "DaemonSet", "d"), pod("p", "a", ds)], "no-owner"),
]


@pytest.mark.parametrize(("make", "reason"), [case[1:] for case in BLOCKED], ids=[case[0] for case in BLOCKED])
def test_what_is_not_restarted_whatever_its_labels(make: Callable[[], list[Object]], reason: str) -> None:
    row = one(*fleet(), *make())
    assert gaps(row) == {reason: ALL}
    assert handled(row) == [False, False, False]


def test_the_last_rounds_are_told_before_they_are_used() -> None:
    assert gaps(one(*fleet(), *out_of_rounds(1))) == {}
    assert gaps(one(*fleet(), *out_of_rounds(2))) == {"terminal-soon": ALL}


def test_where_mindclusters_scheduler_restarts_the_warden_does_not() -> None:
    job, *pods = job_with_pods("j", ("a",))
    pods[0]["spec"]["schedulerName"] = "volcano"
    assert gaps(one(*fleet(), job, *pods, npu_scheduler=True)) == {"stand-down": ALL}
    assert gaps(one(*fleet(), job, *pods)) == {}


def test_no_room_elsewhere() -> None:
    row = one(*fleet("a", "b"), *job_with_pods("j", ("a", "b")))
    assert gaps(row) == {"capacity": HARD}
    assert row.gaps[0].where == ("a", "b")
    assert handled(row) == [True, True, True]


@pytest.mark.parametrize("key", [None, "npuwarden.io/fault"])
def test_a_toleration_of_our_taint(key: str | None) -> None:
    job, *pods = job_with_pods("j", ("a", "b"))
    pods[1]["spec"]["tolerations"] = [{"key": key, "operator": "Exists"} if key else {"operator": "Exists"}]
    row = one(*fleet(), job, *pods)
    assert gaps(row) == {"tolerates-taint": HARD}
    assert row.gaps[0].where == ("j-worker-0",)


def test_a_node_that_is_opted_out() -> None:
    out = node("a", labels={"npuwarden.io/opt-out": "true"})
    one_of_two = one(*fleet("b", "c"), out, *job_with_pods("j", ("a", "b")))
    assert (gaps(one_of_two), one_of_two.gaps[0].where) == ({"opt-out": ALL}, ("a",))
    assert handled(one_of_two) == [True, True, True]
    alone = one(*fleet("b", "c"), out, *job_with_pods("j", ("a",)))
    assert handled(alone) == [False, False, False]
    assert gaps(alone) == {"opt-out": ALL}


@pytest.mark.parametrize("override", [LevelOverride(reschedule="never"), LevelOverride(observe_only=True)])
def test_a_level_that_policy_does_not_restart(override: LevelOverride) -> None:
    policy = Policy(levels={FaultLevel.SEPARATE_NPU: override})
    row = one(*fleet(), *job_with_pods("j", ("a",)), policy=policy)
    assert gaps(row) == {"policy": ("chip",)}
    assert handled(row) == [False, True, True]


@pytest.mark.parametrize("world", [{"paused": "maintenance"}, {"watch_ok": False}, {"reports_ok": False}])
def test_brakes_are_not_counted(world: dict[str, Any]) -> None:
    assert handled(one(*fleet(), *job_with_pods("j", ("a",)), **world)) == [True, True, True]


def test_observe_only_and_a_spent_budget_are_not_counted() -> None:
    policy = msgspec.structs.replace(Policy(), observe_only=True)
    assert handled(one(*fleet(), *job_with_pods("j", ("a",)), policy=policy)) == [True, True, True]


def test_a_crashed_container_restarts_in_its_pod() -> None:
    row = one(*fleet(), *deployment("web", ("a", "b"), {"fault-scheduling": "grace"}))
    assert row.software is not None
    assert (row.software.handled, row.software.by, row.gaps) == (True, "kubelet", ())


def test_a_role_set_replaces_its_failed_pods_itself() -> None:
    row = one(*fleet(), *storm("s", ("a",), {"fault-scheduling": "force"}, size=1))
    assert row.software is not None
    assert (row.software.handled, row.software.by, row.gaps) == (True, "controller", ())


def test_pods_of_one_deployment_are_one_row() -> None:
    row = one(*fleet(), *deployment("web", tuple("abc"), {"fault-scheduling": "force"}))
    assert (row.unit_count, row.pods, row.npus, len(row.units)) == (3, 3, 24, 3)


def test_units_that_fare_differently_are_rows_of_their_own() -> None:
    objects = deployment("web", tuple("abc"), {"fault-scheduling": "force"})
    objects[-1]["metadata"]["labels"] = {}
    found = rows(*fleet(), *objects)
    assert sorted((row.unit_count, gaps(row) != {}) for row in found) == [(1, True), (2, False)]


def test_a_long_list_of_units_is_cut() -> None:
    names = tuple(f"n{i}" for i in range(30))
    row = one(*fleet(*names, "spare"), *deployment("web", names, {"fault-scheduling": "force"}))
    assert (row.unit_count, len(row.units), row.units[-1]) == (30, 21, "and 10 more")


def test_pods_without_npus_count_where_they_carry_the_label() -> None:
    labels = {"app": "mindie-ms-coordinator", "fault-scheduling": "force", "pod-rescheduling": "on"}
    job = ascend_job("c", labels=labels)
    pair = [pod(f"c-{role}-0", on, job, chips=()) for role, on in (("master", "a"), ("worker", "b"))]
    for made in pair:
        made["spec"] |= ALWAYS
    row = one(*fleet(), job, *pair, pod("router", "a", None, chips=()))
    assert (row.workload, row.level, row.unit_count) == ("c", "Pod", 2)
    assert handled(row) == [None, True, True]


def test_pods_that_have_ended_or_are_leaving_do_not_count() -> None:
    done = pod("done", "a", None, phase="Succeeded")
    gone = pod("gone", "a", None)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert rows(*fleet(), done, gone) == []


def test_a_pod_that_waits_for_a_node_fares_like_the_rest() -> None:
    job, *_ = job_with_pods("j", ("a", "b"))
    row = one(*fleet(), job, pod("j-master-0", None, job), pod("j-worker-0", None, job))
    assert handled(row) == [True, True, True]


def test_one_namespace_only() -> None:
    world = world_of([*fleet(), *job_with_pods("j", ("a",))])
    assert [row.workload for row in coverage(world.snapshot(), T0, namespace="ml")] == ["j"]
    assert coverage(world.snapshot(), T0, namespace="other") == []


# What follows holds coverage against the plan: small worlds, one chip broken, is the unit restarted?

METHOD = st.sampled_from([None, "force", "grace", "off", "Force", "external-force"])
RETRIES = st.sampled_from([None, "0", "1", "3", "many"])
OVERRIDE = st.sampled_from(
    [
        None,
        None,
        *(LevelOverride(reschedule=do) for do in ("never", "after", "label")),
        LevelOverride(observe_only=True),
    ]
)
STRATEGY = st.sampled_from([None, "graceExit", "ignore"])
KIND = st.sampled_from(["job", "pair", "podset", "single", "roleset", "deployment", "bare", "daemonset"])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    out = draw(st.sets(st.sampled_from(NODES), max_size=2))
    objects = [node(name, labels={"npuwarden.io/opt-out": "true"} if name in out else None) for name in NODES]
    for number in range(draw(st.integers(1, 3))):
        objects += draw(workloads(f"w{number}"))
    override = draw(OVERRIDE)
    policy = Policy(levels={FaultLevel.SEPARATE_NPU: override} if override is not None else {})
    world = world_of(objects, policy=policy)
    world.npu_scheduler = draw(st.booleans())
    return world


@st.composite
def workloads(draw: st.DrawFn, name: str) -> list[Object]:
    wishes = {"fault-scheduling": METHOD, "fault-retry-times": RETRIES, "subHealthyStrategy": STRATEGY}
    labels = {key: value for key, values in wishes.items() if (value := draw(values)) is not None}
    nodes = tuple(draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)))
    kind = draw(KIND)
    match kind:
        case "job" | "pair":
            more = {"app": "mindie-ms-coordinator", "pod-rescheduling": "on"} if kind == "pair" else {}
            found = job_with_pods(name, nodes, labels=labels | more)
            if draw(st.booleans()):
                found[1]["metadata"]["labels"]["fault-scheduling"] = "grace"
            for made in found[1:]:
                made["metadata"]["labels"]["version"] = str(draw(st.integers(0, 3)))
            if draw(st.sampled_from([False, False, True])):
                found[0]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
        case "podset":
            found = storm(name, nodes, labels)
        case "single":
            found = storm(name, nodes, labels | {"pod-rescheduling": "on"}, size=1)
        case "roleset":
            found = storm(name, nodes, labels, size=1)
        case "deployment":
            found = deployment(name, nodes, labels)
        case "bare":
            found = [pod(f"{name}-{i}", on, None, labels=labels) for i, on in enumerate(nodes)]
        case _:
            top = owner("apps/v1", "DaemonSet", name)
            found = [top, *(pod(f"{name}-{i}", on, top, labels=labels) for i, on in enumerate(nodes))]
    if draw(st.sampled_from([False, False, True])) and found[0]["kind"] != "Pod":
        found[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for made in found:
        if made["kind"] == "Pod":
            made["spec"]["schedulerName"] = draw(st.sampled_from(["volcano", "default-scheduler"]))
    return found


@given(world=worlds(), data=st.data())
def test_coverage_says_what_the_plan_does(world: World, data: st.DataObject) -> None:
    struck = world.pods[data.draw(st.sampled_from(sorted(world.pods)))]
    assert struck.node is not None
    row = _row_of(world, struck.metadata.key)
    spared = next((gap.where for gap in row.gaps if gap.reason == "opt-out"), ())
    assert row.chip is not None
    expected = row.chip.handled and struck.node not in spared
    chip = int(struck.metadata.annotations["huawei.com/AscendReal"].split(",")[0].rpartition("-")[2])
    hear(world, report(struck.node, a_fault(chip)))
    decide(world)
    hear(world, report(struck.node, a_fault(chip), seq=2), at=after(LONG_S))
    opened = [
        action
        for action in decide(world, after(LONG_S)).actions
        if isinstance(action, OpenRecovery) and action.status.phase not in FINISHED_PHASES
    ]
    unit = unit_of(struck, Index(world.snapshot()))
    mine = [
        action
        for action in opened
        if isinstance(unit, Unit) and (action.spec.unit, action.spec.instance) == (unit.id, unit.instance)
    ]
    assert bool(mine) == expected
    if mine:
        assert (mine[0].spec.level, mine[0].spec.method) == (row.chip.level, row.chip.method)


def _row_of(world: World, key: str) -> Covered:
    """The row of this one pod: the units of a workload that fare alike share one, so its siblings are left out."""
    state = world.snapshot()
    unit = unit_of(state.pods[key], Index(state))
    own = {pod.metadata.key for pod in unit.pods} if isinstance(unit, Unit) else {key}
    kept = {name: pod for name, pod in state.pods.items() if name in own}
    found = coverage(dataclasses.replace(state, pods=kept), T0)
    assert len(found) == 1, found
    return found[0]
