"""Refusals that stay until somebody does something are told on the object that a person looks at."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster, fault
from reconciler.core.actions import Hold
from reconciler.core.policy import Policy
from reconciler.core.refusal_events import RECOVERY_HELD, TOLD, held, refusal_events, told
from shared.model import FaultLevel
from tests.core.build import job_with_pods, node, pod, pod_set, role_set, storm_service
from tests.core.test_recovery_phases import DOCUMENTED
from tests.core.worlds import T0, a_fault, decide, hear, report, world_of

SERVICE = storm_service("s")
ROLES = role_set("s-r", SERVICE)
SET = pod_set("s-r-p-0", ROLES)
STATE = world_of(
    [node("a"), *job_with_pods("j", ("a",)), SERVICE, ROLES, SET, pod("s-r-p-0-0", "a", SET), pod("bare", "a", None)]
).snapshot()


def test_only_documented_words_are_told() -> None:
    assert TOLD <= DOCUMENTED


@pytest.mark.parametrize(
    ("subject", "about"),
    [
        ("ml/j", "AscendJob ml/j uid-j"),
        ("ml/s/s-r-p-0", "StormService ml/s uid-s"),
        ("ml/bare", "Pod ml/bare uid-bare"),
        ("a", "Node /a uid-a"),
        ("ml/nobody", None),
        ("not-a-node", None),
    ],
)
def test_an_event_is_about_the_topmost_object_of_its_subject(subject: str, about: str | None) -> None:
    calls = list(refusal_events(STATE, [Hold(subject, "label-missing", "no label")], T0))
    objects = [call.body["involvedObject"] for call in calls]
    found = [f"{o['kind']} {o['namespace']}/{o['name']} {o['uid']}" for o in objects]
    assert found == ([] if about is None else [about])


def test_it_says_what_is_missing_in_words() -> None:
    (call,) = refusal_events(STATE, [Hold("ml/s/s-r-p-0", "label-missing", "no label fault-scheduling")], T0)
    assert (call.body["reason"], call.body["type"]) == ("LabelMissing", "Warning")
    assert call.body["message"] == "ml/s/s-r-p-0: no label fault-scheduling"


def test_a_fault_under_a_workload_without_the_label_is_told() -> None:
    world = world_of([node("a"), *job_with_pods("j", ("a",), labels={})])
    hear(world, report("a", a_fault()))
    decided = decide(world)
    calls = list(refusal_events(world.snapshot(), told(decided.holds).values(), T0))
    assert [call.body["reason"] for call in calls] == ["LabelMissing"]


def test_what_serves_on_faulty_hardware_for_want_of_room_is_told() -> None:
    world = world_of([node("a"), *job_with_pods("j", ("a",))])
    hear(world, report("a", a_fault("node")))
    calls = list(refusal_events(world.snapshot(), told(decide(world).holds).values(), T0))
    assert [(call.body["reason"], call.body["involvedObject"]["kind"]) for call in calls] == [("Capacity", "AscendJob")]


def test_a_job_whose_operator_has_given_up_is_told() -> None:
    objects = job_with_pods("j", ("a",))
    objects[0]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    world = world_of([node("a"), node("b"), *objects])
    hear(world, report("a", a_fault()))
    calls = list(refusal_events(world.snapshot(), told(decide(world).holds).values(), T0))
    assert [call.body["reason"] for call in calls] == ["OwnerTerminal"]


def test_a_restart_that_has_begun_and_is_held_is_told_with_its_recovery_and_phase() -> None:
    lab = VirtualCluster([*(node(name) for name in "abxy"), *job_with_pods("j", ("a", "b"))])
    lab.run_until(10)
    lab.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    lab.run_until(10.2)
    lab.pause("works")
    lab.run_until(12)
    state, holds = lab.warden.snapshot(), lab.warden.plan().holds
    (begun,) = held(state, holds).values()
    (call,) = refusal_events(state, [begun], T0, reason=RECOVERY_HELD)
    assert call.body["reason"] == "RecoveryHeld"
    assert call.body["involvedObject"]["name"] == "j"
    assert "is held in Deleting (paused)" in call.body["message"]
    assert held(state, [Hold("ml/other", "paused", "no restart has begun"), Hold("ml/j", "healed", "no brake")]) == {}


def test_observe_only_writes_not_even_an_event() -> None:
    world = world_of([node("a")], policy=Policy(observe_only=True))
    assert list(refusal_events(world.snapshot(), [Hold("a", "breaker", "m")], T0)) == []


@pytest.mark.parametrize("reason", ["paused", "isolating", "healed", "label-off", "chip-not-used", "rank-table"])
def test_what_waits_or_was_asked_for_is_not_told(reason: str) -> None:
    assert told([Hold("ml/j", reason, "m")]) == {}
