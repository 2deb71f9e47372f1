"""Every phase of a Recovery has an end or a deadline, its words are documented, and its changes are told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from reconciler.core import clock, fold
from reconciler.core.actions import Action, DeletePods, Progress
from reconciler.core.episode import DEADLINE_S
from reconciler.core.objects import Condition
from reconciler.core.recovery import FINISHED_PHASES, OPEN_PHASES, Recovery, RecoveryStatus, Target, Times, WorkloadRef
from reconciler.core.recovery_events import events_of
from reconciler.core.state import World
from tests.core.build import job_with_pods, node, owner_ref, pod
from tests.core.journal import recovery
from tests.core.worlds import T0, a_fault, after, decide, hear, report, world_of

ROOT = Path(__file__).parents[2]
DOCUMENTED = set(re.findall(r"^\| ([a-z-]+) \|", (ROOT / "docs" / "reasons.md").read_text(), re.MULTILINE))


def test_the_phases_are_those_of_the_resource_definition() -> None:
    definition = yaml.safe_load((ROOT / "deploy" / "crd.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert not OPEN_PHASES & FINISHED_PHASES
    assert set(schema["properties"]["status"]["properties"]["phase"]["enum"]) == OPEN_PHASES | FINISHED_PHASES


def test_every_open_phase_has_a_deadline() -> None:
    assert DEADLINE_S.keys() == OPEN_PHASES


def phases_written() -> Iterator[tuple[str, str]]:
    """(place, phase) of every phase that the code writes."""
    for place, call in calls_in_core():
        if called(call) == "to" and call.args:
            yield from ((place, text) for text in constants(call.args[0]))
        if called(call) in ("replace", "RecoveryStatus"):
            yield from ((place, text) for key in call.keywords if key.arg == "phase" for text in constants(key.value))


def reasons_written() -> Iterator[tuple[str, str]]:
    """(place, reason) of every refusal and of every reason that goes into a Recovery."""
    positions = {"Hold": 1, "NoUnit": 1, "Method": 1}
    for place, call in calls_in_core():
        name = called(call)
        if name in positions and len(call.args) > positions[name]:
            yield from ((place, text) for text in constants(call.args[positions[name]]))
        if name == "to" or (name == "replace" and any(key.arg == "phase" for key in call.keywords)):
            yield from ((place, text) for key in call.keywords if key.arg == "reason" for text in constants(key.value))


def calls_in_core() -> Iterator[tuple[str, ast.Call]]:
    for directory in ("core", "workloads"):
        for path in sorted((ROOT / "reconciler" / directory).glob("*.py")):
            for item in ast.walk(ast.parse(path.read_text())):
                if isinstance(item, ast.Call):
                    yield f"{path.name}:{item.lineno}", item


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def constants(expression: ast.expr) -> Iterator[str]:
    """The texts an argument may be: it stands there itself, or is one of two."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str) and expression.value:
        yield expression.value
    elif isinstance(expression, ast.IfExp):
        yield from constants(expression.body)
        yield from constants(expression.orelse)


def test_no_other_phase_is_written() -> None:
    written = list(phases_written())
    assert {"Isolating", "Deleting", "Recreating", "Recovered", "Superseded", "Aborted"} <= {
        word for _, word in written
    }
    assert [f"{place} {word}" for place, word in written if word not in OPEN_PHASES | FINISHED_PHASES] == []


def test_every_reason_has_its_row_in_the_documentation() -> None:
    written = list(reasons_written())
    assert {"label-missing", "paused", "capacity", "rollout", "rank-table"} <= {word for _, word in written}
    assert [f"{place} {word}" for place, word in written if word not in DOCUMENTED] == []


def in_phase(phase: str, world: World, *, level: str = "Job", reached: Times | None = None) -> Recovery:
    """The world gets an open recovery of job j, whose fault stands, in this phase since T0; it is ours."""
    raw = recovery(0, phase=phase, level=level)
    targets = [Target("j-master-0", "uid-j-master-0", "a"), Target("j-worker-0", "uid-j-worker-0", "b")]
    stamp = clock.rfc3339(T0.wall)
    gone = None if phase in ("Pending", "Isolating", "Deleting") else stamp
    times = reached or Times(detected=stamp, claimed=stamp, deleted=stamp, gone=gone)
    raw["status"]["times"] = msgspec.to_builtins(times)
    raw["spec"]["targets"] = [] if phase in ("Pending", "Isolating") else msgspec.to_builtins(targets)
    fold.observe(world, "Recovery", "set", raw)
    return world.recoveries["ml/j-000"]


def progress_of(actions: tuple[Action, ...]) -> list[RecoveryStatus]:
    return [action.status for action in actions if isinstance(action, Progress)]


def overdue(status: RecoveryStatus) -> list[str]:
    return [condition.reason for condition in status.conditions if condition.type == "Overdue"]


def stuck_world(phase: str) -> World:
    """A recovery that cannot go on: the taint is never written, the pods neither end nor come back."""
    world = world_of([node("a"), node("b"), *job_with_pods("j", ("a", "b"))])
    hear(world, report("a", a_fault()), report("b"))
    if phase not in ("Pending", "Isolating"):
        for name in ("j-master-0", "j-worker-0"):
            held = world.pods.pop(f"ml/{name}")
            if phase == "Deleting":
                dying = msgspec.structs.replace(
                    held.metadata, deletion_timestamp=clock.seconds(T0.wall), deletion_grace_period_seconds=1
                )
                world.pods[f"ml/{name}"] = msgspec.structs.replace(held, metadata=dying)
    return world


@pytest.mark.parametrize("phase", sorted(OPEN_PHASES - {"Held", "WaitingForCapacity"}))
@pytest.mark.parametrize("why", ["it does not go on", "paused", "the view is old"])
def test_what_outlasts_its_deadline_is_reported_once_whatever_holds_it_up(phase: str, why: str) -> None:
    world = stuck_world(phase)
    in_phase(phase, world)
    world.paused = "maintenance" if why == "paused" else None
    world.watch_ok = why != "the view is old"
    decide(world)
    late = after(DEADLINE_S[phase] + 1)
    reported = [status for status in progress_of(decide(world, late).actions) if overdue(status)]
    assert [overdue(status) for status in reported] == [[phase]]
    assert reported[0].phase == phase, "it is told, nothing else"
    fold.observe(
        world,
        "Recovery",
        "set",
        {"metadata": {**msgspec.to_builtins(world.recoveries["ml/j-000"].metadata), "resourceVersion": "2000"}}
        | {"spec": msgspec.to_builtins(world.recoveries["ml/j-000"].spec), "status": msgspec.to_builtins(reported[0])},
    )
    again = progress_of(decide(world, after(DEADLINE_S[phase] + 2)).actions)
    assert not any(overdue(status) for status in again if status != reported[0])


def test_a_deadline_is_waited_for_without_any_news() -> None:
    world = stuck_world("Recreating")
    in_phase("Recreating", world)
    wake_at = decide(world, after(DEADLINE_S["Recreating"] - 2)).wake_at
    assert wake_at is not None
    assert wake_at <= after(DEADLINE_S["Recreating"]).mono + 0.01


def test_deletes_that_are_refused_for_long_are_told_and_go_on() -> None:
    world = world_of([node("a"), node("b"), *job_with_pods("j", ("a", "b"))])
    hear(world, report("a", a_fault()), report("b"))
    in_phase("Deleting", world, reached=Times(detected=clock.rfc3339(T0.wall), claimed=clock.rfc3339(T0.wall)))
    actions = decide(world, after(DEADLINE_S["Deleting"] + 1)).actions
    assert any(overdue(status) for status in progress_of(actions))
    assert any(isinstance(action, DeletePods) for action in actions)


def deployment(*, wanted: int, others: int) -> World:
    """A Deployment, one of whose pods (on node a, whose chip is broken) was deleted by a recovery; `others` live on."""
    top = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ml", "uid": "uid-d"}}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "d-abc", "namespace": "ml", "uid": "uid-abc", "ownerReferences": [owner_ref(top)]},
        "spec": {"replicas": wanted, "template": {"spec": {}}},
    }
    pods = [pod(f"d-abc-{n}", "b", replica_set) for n in range(others)]
    world = world_of([node("a"), node("b"), top, replica_set, *pods])
    hear(world, report("a", a_fault()), report("b"))
    raw = recovery(
        0,
        phase="Recreating",
        level="Pod",
        unit="ml/d/d-abc-old",
        instance="d-abc-old",
        workload=WorkloadRef("apps/v1", "Deployment", "d", "uid-d"),
        controller=WorkloadRef("apps/v1", "ReplicaSet", "d-abc", "uid-abc"),
    )
    raw["spec"]["targets"] = [{"pod": "d-abc-old", "uid": "uid-old", "node": "a"}]
    raw["status"]["times"] |= {"gone": clock.rfc3339(T0.wall)}
    fold.observe(world, "Recovery", "set", raw)
    return world


@pytest.mark.parametrize(
    ("wanted", "others", "superseded"),
    [(3, 2, False), (2, 2, True), (1, 2, True), (0, 0, True), (1, 0, False)],
)
def test_a_pod_that_its_controller_does_not_want_any_more_is_not_waited_for(
    wanted: int, others: int, superseded: bool
) -> None:
    """A rollout has moved the replicas to another ReplicaSet, or somebody has scaled down."""
    ends = progress_of(decide(deployment(wanted=wanted, others=others)).actions)
    assert [(s.phase, s.reason) for s in ends if s.phase in FINISHED_PHASES] == (
        [("Superseded", "rollout")] if superseded else []
    )


def test_an_owner_that_is_gone_ends_it() -> None:
    world = stuck_world("Recreating")
    in_phase("Recreating", world)
    world.owners.clear()
    (status,) = progress_of(decide(world).actions)
    assert (status.phase, status.reason) == ("Superseded", "owner-deleted")


def test_the_end_says_how_long_it_took() -> None:
    world = stuck_world("Recreating")
    in_phase("Recreating", world)
    world.owners.clear()
    (status,) = progress_of(decide(world, after(845.2)).actions)
    assert (status.duration, status.times.finished) == ("14m05s", clock.rfc3339(T0.wall + 845.2))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0.84, "0.8s"),
        (59.94, "59.9s"),
        (60, "1m00s"),
        (3599.4, "59m59s"),
        (3600, "1h00m"),
        (90061, "25h01m"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert clock.span(seconds) == text


OVERDUE = Condition("Overdue", "True", "Deleting", "Deleting for more than 60 s")
STALE = Condition("RankTableUnverified", "True", "stale", "hccl.json is the old one")


@pytest.mark.parametrize(
    ("before", "status", "told"),
    [
        ("Recreating", {"phase": "Recovered"}, ["Normal Recovered"]),
        ("Isolating", {"phase": "Aborted"}, ["Normal RecoveryAborted"]),
        ("Recreating", {"phase": "Superseded"}, ["Warning RecoverySuperseded"]),
        ("Recreating", {"phase": "Escalated"}, ["Warning RecoveryEscalated"]),
        (
            "Recreating",
            {"phase": "Recovered", "conditions": (STALE,)},
            ["Warning RankTableUnverified", "Normal Recovered"],
        ),
        ("Deleting", {"phase": "Recreating"}, []),
        ("Recreating", {"phase": "WaitingForCapacity", "reason": "capacity"}, ["Warning WaitingForCapacity"]),
        ("WaitingForCapacity", {"phase": "WaitingForCapacity"}, []),
        ("Recreating", {"phase": "Recreating", "reason": "rank-table"}, ["Normal WaitingForRankTable"]),
        ("Deleting", {"phase": "Deleting", "conditions": (OVERDUE,)}, ["Warning RecoveryOverdue"]),
    ],
)
def test_changes_are_told_on_the_workload(before: str, status: dict[str, Any], told: list[str]) -> None:
    held = msgspec.convert(recovery(0, phase=before), Recovery)
    finished = clock.rfc3339(T0.wall) if status["phase"] in FINISHED_PHASES else None
    calls = list(events_of(held, RecoveryStatus(**status, message="m", times=Times(finished=finished)), T0))
    assert [f"{call.body['type']} {call.body['reason']}" for call in calls] == told
    assert {call.body["involvedObject"]["uid"] for call in calls} <= {"uid-j"}
    assert all(call.aside for call in calls)


def test_a_condition_is_told_once() -> None:
    held = msgspec.convert(recovery(0, phase="Deleting"), Recovery)
    status = msgspec.structs.replace(held.status, conditions=(OVERDUE,))
    told = msgspec.structs.replace(held, status=status)
    assert list(events_of(told, msgspec.structs.replace(status, message="more"), T0)) == []
