"""What is told by webhook, once each, with an id that says the same thing whoever sends it."""

from typing import Any

import msgspec
import pytest

from reconciler.core import clock, fold
from reconciler.core.actions import Hold, Incident
from reconciler.core.notices import CATCH_UP_S, QUIET_S, Notice, NoticeBook
from reconciler.core.policy import Policy
from reconciler.core.state import World
from shared.model import Drill, Fault, FaultLevel, Instant, fault_id
from shared.names import ISOLATION_ANNOTATION, TAINT_KEY
from tests.core.build import node
from tests.core.worlds import T0, a_fault, after, hear, report, world_of

REASON = "SeparateNPU 80E18402@3"


def isolated(
    name: str = "a",
    session: str = "s1",
    *,
    ago_s: float = 0.0,
    effect: str = "NoSchedule",
    by: str = "warden",
    reasons: tuple[str, ...] = (REASON,),
) -> dict[str, Any]:
    made = node(name)
    record = {"session": session, "since": clock.rfc3339(T0.wall - ago_s), "by": by, "reasons": reasons}
    made["metadata"]["annotations"] = {ISOLATION_ANNOTATION: msgspec.json.encode(record).decode()}
    value = "Probation" if effect == "PreferNoSchedule" else "SeparateNPU"
    made["spec"] = {"taints": [{"key": TAINT_KEY, "value": value, "effect": effect}]}
    return made


def recovery(
    phase: str, name: str = "llm-1", *, ago_s: float = 0.0, origin: str = "probe", **more: Any
) -> dict[str, Any]:
    ref = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "llm", "uid": "u"}
    cause = {"kind": "Hardware", "faults": ["80E18402@3 on a"], "nodes": ["a"]}
    times = {"finished": clock.rfc3339(T0.wall - ago_s)} if phase not in ("Deleting", "WaitingForCapacity") else {}
    return {
        "kind": "Recovery",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "workload": ref,
            "unit": "ml/llm",
            "level": "Job",
            "method": "force",
            "cause": cause,
            "origin": origin,
        },
        "status": {"phase": phase, "message": "why", "duration": "12.5s", "times": times, **more},
    }


class Story:
    """A book that looks at a world whenever something has happened to it."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.world: World = world_of(objects or [node("a"), node("b")])
        self.book = NoticeBook()

    def look(
        self,
        *objects: dict[str, Any],
        holds: tuple[Hold, ...] = (),
        incidents: tuple[Incident, ...] = (),
        at: Instant = T0,
    ) -> list[Notice]:
        for obj in objects:
            fold.observe(self.world, obj["kind"], "set", obj)
        return self.book.look(self.world.snapshot(), holds, incidents, at)


def events(found: list[Notice]) -> list[str]:
    return [notice.event for notice in found]


def test_an_isolation_and_its_end_are_told_once() -> None:
    story = Story()
    assert story.look() == []
    (told,) = story.look(isolated())
    assert (told.event, told.node, told.reasons, told.drill) == ("isolated", "a", (REASON,), False)
    assert told.taint == "SeparateNPU:NoSchedule"
    assert story.look() == []
    (released,) = story.look(node("a"))
    assert (released.event, released.node) == ("released", "a")
    assert released.id == told.id.replace("isolated", "released")
    assert story.look() == []


def test_a_node_on_probation_has_been_given_back() -> None:
    story = Story()
    story.look(isolated())
    assert events(story.look(isolated(effect="PreferNoSchedule"))) == ["released"]


def test_a_taint_that_somebody_took_off_comes_back_and_is_no_release() -> None:
    story = Story()
    story.look(isolated())
    bare = isolated()
    bare["spec"] = {}
    assert story.look(bare) == []
    assert story.look(isolated()) == []


def test_a_node_that_is_gone_is_not_given_back() -> None:
    story = Story()
    story.look(isolated())
    del story.world.nodes["a"]
    assert story.look() == []


def test_isolated_again_is_told_again() -> None:
    story = Story()
    (first,) = story.look(isolated())
    story.look(node("a"))
    (second,) = story.look(isolated(session="s2"))
    assert first.id != second.id


@pytest.mark.parametrize(
    ("phase", "event"),
    [("Recovered", "recovered"), ("Exhausted", "exhausted"), ("Escalated", "failed"), ("OwnerTerminal", "failed")],
)
def test_the_end_of_a_recovery(phase: str, event: str) -> None:
    story = Story()
    story.look(recovery("Deleting"))
    (told,) = story.look(recovery(phase))
    assert (told.event, told.phase, told.recovery, told.unit) == (event, phase, "ml/llm-1", "ml/llm")
    assert told.took == "12.5s"
    assert story.look() == []


@pytest.mark.parametrize("phase", ["Aborted", "Superseded", "Deleting"])
def test_what_has_restarted_nothing_is_not_told(phase: str) -> None:
    assert Story().look(recovery(phase)) == []


def test_a_phase_that_lasts_too_long_is_told_once_a_phase() -> None:
    story = Story()
    late = {"type": "Overdue", "status": "True", "reason": "WaitingForCapacity", "message": "for more than 3600 s"}
    (told,) = story.look(recovery("WaitingForCapacity", conditions=[late]))
    assert told.event == "overdue"
    assert "3600 s" in told.text
    assert story.look() == []
    assert events(story.look(recovery("Recovered", conditions=[late]))) == ["recovered"]


def test_a_new_leader_says_the_same_again_with_the_same_ids() -> None:
    happened = [isolated(ago_s=60), recovery("Recovered", ago_s=60), node("b")]
    first, second = Story(*happened), Story(*happened)
    told = first.look()
    assert events(told) == ["isolated", "recovered"]
    assert [one.id for one in second.look(at=after(30))] == [one.id for one in told]


def test_what_is_long_ago_is_not_told_by_a_new_leader() -> None:
    story = Story(isolated(ago_s=CATCH_UP_S + 1), recovery("Recovered", ago_s=CATCH_UP_S + 1))
    assert story.look() == []
    assert events(story.look(node("a"))) == ["released"]


def held(reason: str, *subjects: str) -> tuple[Hold, ...]:
    return tuple(Hold(subject, reason, "too many at once") for subject in subjects)


def test_a_held_incident_is_one_notice_however_many_it_holds() -> None:
    story = Story()
    (told,) = story.look(holds=held("breaker", "b", "a"))
    assert (told.event, told.reason, told.subjects) == ("held", "breaker", ("a", "b"))
    assert story.look(holds=held("breaker", "b", "a", "c"), at=after(30)) == []
    assert story.look(at=after(40)) == []
    assert story.look(holds=held("breaker", "b"), at=after(45 + QUIET_S / 2)) == []
    assert events(story.look(holds=held("breaker", "b"), at=after(100 + 2 * QUIET_S))) == ["held"]


def incident(kind: str, *held: str) -> Incident:
    return Incident(f"{kind}-1", kind, kind, clock.rfc3339(T0.wall), "why", ("a", "b"), held)


@pytest.mark.parametrize(
    ("reason", "named"), [("breaker", ("breaker-1",)), ("common-cause", ("code-1", "agent-1")), ("budget", None)]
)
def test_what_is_held_names_its_incidents(reason: str, named: tuple[str, ...] | None) -> None:
    """Not those that are acted upon: what they hold is nothing."""
    seen = (*(incident(kind, "a") for kind in ("breaker", "code", "agent")), incident("domain"))
    found = Story().look(holds=held(reason, "a"), incidents=seen)
    assert [one.incidents for one in found] == ([] if named is None else [named])


@pytest.mark.parametrize("reason", ["paused", "budget", "opt-out", "muted"])
def test_a_refusal_that_concerns_one_unit_is_no_incident(reason: str) -> None:
    assert Story().look(holds=held(reason, "a")) == []


DRILLED = Fault(
    fault_id("80E18402", 3), "80E18402", 3, FaultLevel.SEPARATE_NPU, T0.wall, True, origin="drill",
    evidence={"effect": "real"},
)  # fmt: skip
RUNNING = Drill("d", DRILLED.id, "real", T0.wall + 60)


def test_drills_are_marked() -> None:
    story = Story()
    hear(story.world, msgspec.structs.replace(report("a", DRILLED), drill=RUNNING))
    (told,) = story.look(isolated(by="drill"))
    assert told.drill
    hear(story.world, report("a", seq=2))
    assert [one.drill for one in story.look(node("a"))] == [True]
    assert [one.drill for one in story.look(recovery("Recovered", origin="drill"))] == [True]


def test_a_real_fault_beside_a_drill_is_real() -> None:
    story = Story()
    hear(story.world, report("a", a_fault()))
    assert [one.drill for one in story.look(isolated())] == [False]


def test_a_leader_that_finds_the_node_of_a_drill_isolated_calls_it_a_drill() -> None:
    """Its agent has not spoken yet, or the drill is over and the node heals."""
    story = Story(isolated(by="drill"))
    assert [one.drill for one in story.look()] == [True]
    assert [one.drill for one in story.look(node("a"))] == [True]


@pytest.mark.parametrize(
    ("by", "level", "code"),
    [("warden", FaultLevel.SEPARATE_NPU, "80E01801"), ("drill", FaultLevel.RESTART_NPU, "8C1F8608")],
)
def test_a_real_fault_that_joins_a_drill_is_told_as_one(by: str, level: FaultLevel, code: str) -> None:
    """With less than the drill plays, its isolation goes on as the drill's, and says both reasons."""
    story = Story()
    hear(story.world, msgspec.structs.replace(report("a", DRILLED), drill=RUNNING))
    (practised,) = story.look(isolated(by="drill"))
    real = Fault(fault_id(code, 5), code, 5, level, T0.wall, True)
    hear(story.world, msgspec.structs.replace(report("a", DRILLED, real, seq=2), drill=RUNNING))
    both = isolated(by=by, reasons=(REASON, f"{level.value} {real.id}"))
    (told,) = story.look(both)
    assert (told.event, told.drill) == ("isolated", False)
    assert real.id in told.text
    assert told.id != practised.id, "a receiver that drops what comes twice must not drop this"
    assert story.look(both) == []
    assert [one.drill for one in story.look(node("a"))] == [False]


def test_whatever_is_told_while_the_warden_only_watches_says_so() -> None:
    story = Story()
    story.world.policy = Policy(observe_only=True)
    held = (Hold("node-a", "breaker", "12 of 40 nodes within 5 min"),)
    told = story.look(isolated(), recovery("Recovered"), holds=held)
    assert {(one.event, one.observe_only) for one in told} == {
        ("isolated", True),
        ("recovered", True),
        ("held", True),
    }
    story.world.policy = Policy()
    (released,) = story.look(node("a"))
    assert not released.observe_only
    assert b"observe_only" not in msgspec.json.encode(released)
