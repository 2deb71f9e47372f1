"""What the cluster asks for and what becomes of it: one at a time, not beside real faults, told by id."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core import fold
from reconciler.core.actions import OpenRecovery
from reconciler.core.drill_orders import DrillRow, commands, rows
from reconciler.core.drills import silencing
from reconciler.core.objects import Condition
from reconciler.core.state import World
from reconciler.drill_view import drills
from shared.commands import DrillStart, DrillStop
from shared.model import Chip, Drill, Fault, FaultLevel, NodeReport
from shared.names import DRILL_ANNOTATION, DRILL_CONDITION, OPT_OUT_LABEL
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


SILENT = {"chip": "node", "code": "NW-AGENT-SILENT", "kind": "node-silent"}


def silent(name: str = "d1", effect: Any = "real") -> NodeReport:
    return replace(report("a", seq=2, chips=CHIPS), drill=Drill(name, "NW-AGENT-SILENT@node", effect, UNTIL))


def fall_silent(world: World, effect: Any = "real", *, ready: bool = True) -> Any:
    """The agent of a says that it falls silent; b goes on. A minute later."""
    hear(world, silent(effect=effect))
    late = after(60)
    hear(world, report("b", seq=3, chips=CHIPS), at=late)
    if not ready:
        obj = node("a", ready="False")
        obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked(**SILENT)
        fold.observe(world, "Node", "set", obj)
    return late


@pytest.mark.parametrize("effect", ["shadow", "real"])
def test_a_drilled_silence_is_held_and_says_so(effect: str) -> None:
    world = cluster(asked(effect=effect, **SILENT), None)
    late = fall_silent(world, effect)
    decided = decide(world, late)
    assert kinds(decided) == []
    assert ["silence is not death" in hold.message for hold in decided.holds if hold.subject == "a"] == [True]
    said = {a.status for a in decided.actions if type(a).__name__ == "SetCondition" and a.node.metadata.name == "a"}  # type: ignore[union-attr]
    assert ("Unknown" in said) is (effect == "real"), "a shadow changes no condition"
    (row,) = drills(world.snapshot(), late)
    assert (row.state, "silence is not death" in row.held) == ("running", True)
    (early,) = drills(world.snapshot(), after(5))
    assert early.held == ""


def test_a_drilled_silence_makes_no_death_of_a_node_that_is_not_ready() -> None:
    drilled, real = cluster(asked(**SILENT), None), cluster(None, None)
    assert "Isolate Node/a" not in kinds(decide(drilled, fall_silent(drilled, ready=False)))
    hear(real, report("a", seq=2, chips=CHIPS))
    fold.observe(real, "Node", "set", node("a", ready="False"))
    assert "Isolate Node/a" in kinds(decide(real, after(60))), "a real one does at once"


def test_a_node_that_stays_not_ready_is_dead_by_that_alone() -> None:
    world = cluster(asked(**SILENT), None)
    late = fall_silent(world, ready=False)
    decide(world, late)
    assert "Isolate Node/a" in kinds(decide(world, after(130)))


@pytest.mark.parametrize("gone", ["the request", "the node"])
def test_a_silence_that_nobody_asks_for_counts_again(gone: str) -> None:
    world = cluster(asked(**SILENT), None)
    fall_silent(world, ready=False)
    if gone == "the request":
        fold.observe(world, "Node", "set", node("a", ready="False"))
        assert "Isolate Node/a" in kinds(decide(world, after(60)))
    else:
        fold.observe(world, "Node", "gone", node("a"))
        assert silencing(world.snapshot(), "a", after(60)) is None


def two_instances(of_j: dict[str, str] | None = None, *, other_ready: bool = True) -> World:
    """Job j on a and b; where said, job k beside it of the same role and service."""
    world = cluster(asked(effect="real"), None, None)
    more = {"fault-scheduling": "force", "jobID": "s"}
    objects = [*job_with_pods("j", ("a", "b"), labels={**more, **(of_j or {})})]
    if other_ready:
        objects += job_with_pods("k", ("c",), labels=more)
    for obj in objects:
        fold.observe(world, obj["kind"], "set", obj)
    return world


def test_the_last_ready_instance_of_a_role_is_drilled_as_a_shadow_or_by_force() -> None:
    assert "is the last Ready instance" in one(two_instances(other_ready=False)).why
    assert told(two_instances(other_ready=False)) == []
    assert one(two_instances()).state == "asked"
    assert "is the last Ready instance" in one(two_instances({"grt-group/deploy-server": "2"})).why, "k is decode"
    harmless = {"effect": "real", "code": "81078603"}
    for more in ({"effect": "shadow"}, {"effect": "real", "force": True}, harmless):
        world = two_instances(other_ready=False)
        world.network_codes = frozenset({"81078603"})
        obj = node("a")
        obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked(**more)
        fold.observe(world, "Node", "set", obj)
        assert (one(world).state, more) == ("asked", more)


def failing(**more: Any) -> dict[str, Any]:
    known = {"chip": "node", "code": "NW-POD-FAILED", "kind": "software-fault", "pod": "ml/j-0"}
    return {**known, **more}


def test_a_pod_that_ends_by_a_drill_is_told_apart_from_one_that_fails() -> None:
    world = two_instances()
    key, pod = next((key, pod) for key, pod in sorted(world.pods.items()) if pod.node == "a")
    obj = node("a")
    request = failing(pod=key, uid=pod.metadata.uid, effect="shadow")
    obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked(**request)
    fold.observe(world, "Node", "set", obj)
    (row,) = drills(world.snapshot(), T0)
    assert (row.state, row.fault) == ("running", f"pod {key}")
    assert told(world) == [], "no agent has a part in it"
    assert kinds(decide(world)) == [], "asking has changed nothing"
    assert any(text.startswith(("restart ", "leave ")) for text in row.would), row.would
    for wrong, why in (({"uid": "x"}, "another one by now"), ({"pod": "ml/none"}, "")):
        obj["metadata"]["annotations"][DRILL_ANNOTATION] = asked(**{**request, **wrong})
        fold.observe(world, "Node", "set", obj)
        assert why in one(world).why


def test_no_pod_is_ended_before_its_job_would_survive_that() -> None:
    world = two_instances({"fault-retry-times": "3"})
    key, pod = next((key, pod) for key, pod in sorted(world.pods.items()) if pod.node == "a")
    obj = node("a")
    obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked(
        **failing(pod=key, uid=pod.metadata.uid, effect="real")
    )
    fold.observe(world, "Node", "set", obj)
    assert world.ledger is None
    (row,) = drills(world.snapshot(), T0)
    assert (row.state, "the ledger of retries" in row.why) == ("refused", True)


def test_the_restart_of_a_pod_that_a_drill_has_ended_is_labelled() -> None:
    world = two_instances()
    key, pod = next((key, pod) for key, pod in sorted(world.pods.items()) if pod.node == "a")
    mark = Condition(type=DRILL_CONDITION, status="True", message="d1")
    failed = replace(pod, status=replace(pod.status, phase="Failed", conditions=(mark,)))
    world.pods[key] = failed
    obj = node("a")
    request = failing(pod=key, uid=pod.metadata.uid, effect="real")
    obj["metadata"].setdefault("annotations", {})[DRILL_ANNOTATION] = asked(**request)
    fold.observe(world, "Node", "set", obj)
    hear(world, report("b", a_fault(0), seq=2, chips=CHIPS))
    assert one(world).state == "running", "a real fault ends nothing that has begun"
    world.owners = {
        uid: replace(
            owner, metadata=replace(owner.metadata, labels={**owner.metadata.labels, "fault-retry-times": "3"})
        )
        for uid, owner in world.owners.items()
    }
    hear(world, report("b", seq=3, chips=CHIPS))
    opened = [action for action in decide(world).actions if isinstance(action, OpenRecovery)]
    assert [(one.spec.origin, one.spec.cause.kind, one.status.charged) for one in opened] == [("drill", "Software", 1)]


def test_a_redis_that_is_away_shows_as_running() -> None:
    world = cluster(asked(chip="node", code="NW-REDIS-DOWN", kind="redis-down", effect="real"))
    assert (one(world).state, told(world)) == ("asked", [])
    world.reports_ok = False
    (row,) = drills(world.snapshot(), T0)
    assert row.state == "running"
    assert "nothing new is decided from silence" in row.held
