"""A delete whose answer was lost has taken its place in the minute's ration: it may have been carried out."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core import fold
from reconciler.core.actions import Action, DeletePods
from reconciler.core.calls import Outcome, Reply, Step
from reconciler.core.policy import Budget, Policy
from reconciler.core.steps import steps_for
from shared.model import FaultLevel
from tests.core.build import job_with_pods, node

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)


def about_to_delete(lab: VirtualCluster) -> DeletePods:
    """The warden has done everything that comes before the first delete."""
    for _ in range(20):
        actions: tuple[Action, ...] = tuple(lab.warden.plan().actions)
        for action in actions:
            if isinstance(action, DeletePods):
                return action
            lab.warden._act(action)
        lab.clock.advance_to(lab.clock.t + 0.3)
    raise AssertionError("no delete is planned")


@pytest.mark.parametrize(
    ("status", "counted"),
    [(200, 2), (0, 2), (409, 0), (429, 0), (500, 0)],
    ids=["done", "no answer", "conflict", "too many requests", "refused"],
)
def test_what_may_have_been_deleted_is_counted(status: int, counted: int) -> None:
    lab = VirtualCluster(
        [*(node(name) for name in "abxy"), *job_with_pods("j", ("a", "b"))],
        policy=Policy(budget=Budget(restarting="100%")),
        recreate=Recreate(3, 10, ("x", "y")),
    )
    lab.run_until(10)
    lab.report("a", [BAD])
    step = steps_for(about_to_delete(lab), lab.warden.world.holder, lab.clock.now())
    assert _driven(lab, step, status).deletes == counted


def test_what_a_slow_action_is_deleting_has_its_place_from_the_beginning() -> None:
    lab = VirtualCluster(
        [*(node(name) for name in "abcdwxyz"), *job_with_pods("j", ("a", "b")), *job_with_pods("k", ("c", "d"))],
        policy=Policy(budget=Budget(restarting="100%", deletes_per_min=3)),
        recreate=Recreate(3, 10, tuple("wxyz")),
    )
    lab.run_until(10)
    lab.report("a", [BAD])
    slow = about_to_delete(lab)
    fold.begun(lab.warden.world, slow)
    lab.report("c", [BAD])
    for _ in range(10):
        others = [action for action in lab.warden.plan().actions if action.key != slow.key]
        assert not [action for action in others if isinstance(action, DeletePods)], "two of three are taken"
        for action in others:
            lab.warden._act(action)
        lab.clock.advance_to(lab.clock.t + 0.3)
    assert [hold.reason for hold in lab.why("ml/k")] == ["budget"]
    fold.outcome(lab.warden.world, slow, Outcome(False, "conflict", "the owner is gone"), lab.clock.now())
    assert lab.warden.world.memory.deleting == {}, "what it has not deleted is free again"
    assert slow.key in [action.key for action in lab.warden.plan().actions]


def _driven(lab: VirtualCluster, step: Step, status: int) -> Outcome:
    """The step, every delete of which is answered so; 200: as the API server does."""
    call = next(step)
    while True:
        refused = call.method == "DELETE" and status != 200
        reply = Reply(status, {"message": "the network"}) if refused else lab.warden._send(call)
        try:
            call = step.send(reply)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
