"""What a plan begins first when it cannot do all at once."""

from __future__ import annotations

import msgspec

from reconciler.core.actions import Action
from reconciler.core.policy import Policy
from reconciler.core.urgency import TAINTS, in_order
from tests.core.build import job_with_pods, node
from tests.core.worlds import a_fault, decide, hear, report, world_of

UNBRAKED = msgspec.convert(
    {"breaker": {"min_nodes": 100}, "common_cause": {"nodes": 100}, "budget": {"restarting": "100%"}}, Policy
)


def named(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def test_taints_and_recoveries_take_turns_and_what_only_tells_is_last() -> None:
    names = [f"node-{number:02}" for number in range(TAINTS + 3)]
    jobs = [obj for name in names for obj in job_with_pods(f"job-{name}", (name,))]
    world = world_of([*map(node, names), *jobs], policy=UNBRAKED)
    hear(world, *(report(name, a_fault()) for name in names))
    actions = decide(world).actions
    ordered = in_order(actions)
    assert sorted(map(repr, ordered)) == sorted(map(repr, actions)), "none is lost, none is added"
    first_turn, second_turn = ["Isolate"] * TAINTS + ["OpenRecovery"], ["Isolate"] * 3 + ["OpenRecovery"]
    urgent = ["WriteLedger", *first_turn, *second_turn, *["OpenRecovery"] * (TAINTS + 1)]
    assert named(ordered)[: len(urgent)] == urgent
    assert set(named(ordered)[len(urgent) :]) == {"SetCondition", "KeepOffered"}


def test_without_recoveries_the_taints_keep_their_order() -> None:
    world = world_of(map(node, "abc"))
    hear(world, *(report(name, a_fault()) for name in "abc"))
    taints = [action.key for action in in_order(decide(world).actions) if type(action).__name__ == "Isolate"]
    assert taints == ["Node/a", "Node/b", "Node/c"]
