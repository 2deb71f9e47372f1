"""What the cluster asks for and what becomes of it: one at a time, not beside real faults, told by id."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core import fold
from reconciler.core.drills import DrillRow, commands, rows
from reconciler.core.state import World
from reconciler.drill_view import drills
from shared.commands import DrillStart, DrillStop
from shared.model import Chip, Drill, Fault, FaultLevel, NodeReport
from shared.names import DRILL_ANNOTATION, OPT_OUT_LABEL
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0, a_fault, after, decide, hear, kinds, report, world_of

CHIPS = (Chip(0, "ok"), Chip(1, "ok"), Chip(3, "ok"))
UNTIL = T0.wall + 300


def asked(name: str = "d1", **more: Any) -> str:
    known = {"name": name, "kind": "chip-fault", "chip": 3, "code": "80E18402", "until": UNTIL}
    return json.dumps({**known, **more})


def cluster(*annotations: str | None, labels: dict[str, str] | None = None) -> World:
    """Nodes a, b, ... with these requests, all heard."""
    names = "abcdef"[: len(annotations)]
    objects = []
    for name, text in zip(names, annotations, strict=True):
        obj = node(name, labels=labels or {})
        if text is not None:
            obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = text
        objects.append(obj)
    world = world_of(objects)
    hear(world, *(report(name, chips=CHIPS) for name in names))
    return world


def running(node: str, name: str = "d1", *, effect: Any = "shadow", shown: bool = True, seq: int = 2) -> NodeReport:
    evidence = {"drill": name, "effect": effect, "until": UNTIL}
    fault = replace(a_fault(), origin="drill", evidence=evidence)
    said = report(node, *([fault] if shown else []), seq=seq, chips=CHIPS)
    return replace(said, drill=Drill(name, fault.id, effect, UNTIL))


def one(world: World) -> DrillRow:
    (row,) = rows(world.snapshot(), T0)
    return row


def told(world: World, at: Any = T0, sent: Any = ()) -> list[Any]:
    return [command.body for command in commands(world.snapshot(), at, sent)]


def test_a_request_is_told_to_its_agent_until_it_runs() -> None:
    world = cluster(asked(effect="real", by="ada"), None)
    (command,) = commands(world.snapshot(), T0, ())
    assert (command.node, command.id, command.expires_at) == ("a", "drill/d1/start", UNTIL)
    assert command.body == DrillStart("d1", 3, "80E18402", ttl_s=300, effect="real")
    assert told(world, sent=[command.id]) == []
    assert (one(world).state, one(world).by) == ("asked", "ada")
    hear(world, running("a"))
    assert told(world) == []
    assert one(world).state == "running"


def test_what_is_not_asked_for_any_more_is_stopped_and_a_local_drill_is_left() -> None:
    world = cluster(None, None)
    hear(world, running("a"), running("b", "local-1"))
    assert told(world) == [DrillStop("d1")]
    assert [row.state for row in rows(world.snapshot(), T0)] == ["running", "running"]


def test_after_its_time_nothing_is_told_and_nothing_counts() -> None:
    world = cluster(asked())
    late = after(301)
    assert told(world, late) == []
    assert rows(world.snapshot(), late)[0].state == "over"
    hear(world, running("a"), at=late)
    assert told(world, late) == []


REFUSED: dict[str, tuple[World, str]] = {
    "a chip that is not there": (cluster(asked(chip=2)), "a has no chip 2; its physical ids are 0, 1, 3"),
    "an opted-out node": (cluster(asked(), labels={OPT_OUT_LABEL: "true"}), "opted out"),
    "too long": (cluster(asked(until=T0.wall + 7200)), "longer than 3600 s"),
    "no JSON": (cluster("yes please"), "is no drill"),
    "no such effect": (cluster(asked(effect="brutal")), "is no drill"),
    "no such chip number": (cluster(asked(chip=-1)), "is no drill"),
}


@pytest.mark.parametrize(("world", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused(world: World, why: str) -> None:
    assert one(world).state == "refused"
    assert why in one(world).why
    assert told(world) == []


def test_an_agent_that_was_never_heard_gets_none() -> None:
    obj = node("a")
    obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked()
    assert "has not reported" in one(world_of([obj])).why


def test_one_at_a_time() -> None:
    world = cluster(asked("d2"), asked("d1"), asked("d3"))
    states = {row.name: row.state for row in rows(world.snapshot(), T0)}
    assert states == {"d1": "asked", "d2": "refused", "d3": "refused"}
    hear(world, running("c", "d3"))
    states = {row.name: row.state for row in rows(world.snapshot(), T0)}
    assert states == {"d1": "refused", "d2": "refused", "d3": "running"}
    assert told(world) == []


LEVELS = [(FaultLevel.SUB_HEALTH, True), (FaultLevel.RESTART_REQUEST, False), (FaultLevel.SEPARATE_NPU, False)]


@pytest.mark.parametrize(("level", "runs"), LEVELS)
def test_not_beside_a_real_fault_unless_forced(level: FaultLevel, runs: bool) -> None:
    for force in (False, True):
        world = cluster(asked(force=force), None)
        hear(world, report("b", a_fault(0, level=level), seq=2, chips=CHIPS))
        assert bool(told(world)) is (runs or force)


def test_a_drill_that_runs_goes_on_when_a_real_fault_comes() -> None:
    world = cluster(asked(), None)
    hear(world, running("a"), report("b", a_fault(0), seq=2, chips=CHIPS))
    assert one(world).state == "running"
    assert told(world) == []
    assert "Isolate Node/b" in kinds(decide(world))


def with_pods(effect: str) -> World:
    world = cluster(asked(effect=effect), None)
    objects = [node("a"), node("b"), *job_with_pods("j", ("a", "b"))]
    for obj in objects[2:]:
        fold.observe(world, obj["kind"], "set", obj)
    hear(world, running("a", effect=effect))
    return world


def test_a_shadow_changes_nothing_and_says_what_it_would() -> None:
    world = with_pods("shadow")
    decided = decide(world)
    assert kinds(decided) == []
    assert any("a shadow drill only watched" in hold.message for hold in decided.holds)
    (row,) = drills(world.snapshot(), T0)
    assert "taint a SeparateNPU:NoSchedule" in row.would
    assert any(text.startswith("restart ml/j") for text in row.would)
    assert kinds(decide(world)) == [], "asking has changed nothing"


def test_a_real_one_is_done_and_labelled() -> None:
    decided = decide(with_pods("real"))
    assert "Isolate Node/a" in kinds(decided)
    (opened,) = [action for action in decided.actions if type(action).__name__ == "OpenRecovery"]
    assert opened.spec.origin == "drill"  # type: ignore[union-attr]


@pytest.mark.parametrize("effect", ["shadow", "real"])
def test_a_dead_agents_drill_ends_at_its_time(effect: str) -> None:
    world = with_pods(effect)
    hear(world, running("a", effect=effect, seq=9), at=after(301))
    assert kinds(decide(world, after(301))) == []
    condition = [a for a in decide(world, after(301)).actions if type(a).__name__ == "SetCondition"]
    assert all(a.status == "True" for a in condition if a.node.metadata.name == "a")  # type: ignore[union-attr]


def test_a_manual_separation_by_a_drill_is_not_kept() -> None:
    world = cluster(asked(effect="real"))
    fault: Fault = replace(running("a", effect="real").faults[0], level=FaultLevel.MANUALLY_SEPARATE_NPU)
    chips = tuple(replace(chip, die=f"die-{chip.phy}") for chip in CHIPS)
    hear(world, replace(running("a", effect="real"), faults=(fault,), chips=chips))
    assert "Isolate Node/a" in kinds(decide(world))
    assert not any(type(action).__name__ == "KeepSeparations" for action in decide(world).actions)
