"""The newest Recoveries of each unit are kept; what was counted does not fall when older ones are removed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.lab.cluster.store import Store
from reconciler.core import fold, retries
from reconciler.core.actions import Action, OpenRecovery, Prune
from reconciler.core.calls import Call, Outcome, Reply
from reconciler.core.recovery import History, WorkloadRef
from reconciler.core.retention import AT_ONCE, KEPT, plan_retention
from reconciler.core.state import World
from reconciler.core.steps import steps_for
from reconciler.core.units import Index, Unit
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from tests.core.build import job_with_pods, node, owner_ref, pod
from tests.core.journal import JOB, recovery
from tests.core.worlds import T0, a_fault, decide, hear, report, world_of


def world_with(recoveries: list[dict[str, Any]]) -> World:
    world = world_of([node("a"), node("b"), *job_with_pods("j", ("a", "b")), *recoveries])
    world.kinds |= {"AscendJob", "ReplicaSet", "Deployment"}
    return world


def pruned(world: World) -> list[str]:
    return [action.recovery.metadata.name for action in plan_retention(world.snapshot())]


def prune_all(world: World) -> int:
    """Until nothing more is to be removed."""
    removed = 0
    while actions := list(plan_retention(world.snapshot())):
        for action in actions:
            fold.outcome(world, action, Outcome(True, gone=(gone(action),)), T0)
            removed += 1
    return removed


def gone(action: Prune) -> tuple[str, str, str]:
    meta = action.recovery.metadata
    return "Recovery", meta.key, meta.uid


def unit_in(world: World, name: str = "ml/j-master-0") -> Unit:
    state = world.snapshot()
    found = unit_of(state.pods[name], Index(state))
    assert isinstance(found, Unit)
    return found


def test_the_newest_of_a_unit_are_kept_and_the_oldest_goes_first() -> None:
    world = world_with([recovery(n) for n in range(KEPT + 2)])
    assert pruned(world) == ["j-000"]
    assert prune_all(world) == 2
    assert sorted(world.recoveries) == [f"ml/j-{n:03}" for n in range(2, KEPT + 2)]


@pytest.mark.parametrize("phase", ["Recreating", "Held", "WaitingForCapacity"])
def test_what_is_open_is_neither_counted_nor_removed(phase: str) -> None:
    recoveries = [recovery(0, phase=phase), *(recovery(n) for n in range(1, KEPT + 1))]
    assert pruned(world_with(recoveries)) == []
    assert pruned(world_with([*recoveries, recovery(KEPT + 1)])) == ["j-001"]


def test_units_do_not_crowd_each_other_out() -> None:
    many = [recovery(n, unit=f"ml/j{unit}") for unit in range(5) for n in range(KEPT)]
    assert pruned(world_with(many)) == []


def test_one_plan_removes_from_a_few_units_only() -> None:
    many = [recovery(n, unit=f"ml/j{unit}") for unit in range(AT_ONCE + 5) for n in range(KEPT + 1)]
    world = world_with(many)
    assert len(pruned(world)) == AT_ONCE
    assert prune_all(world) == AT_ONCE + 5


def test_an_owner_of_the_same_name_keeps_its_own() -> None:
    other = WorkloadRef(JOB.api_version, JOB.kind, JOB.name, "uid-of-the-job-before")
    recoveries = [recovery(n) for n in range(KEPT)] + [recovery(n, workload=other, name=f"o-{n}") for n in range(3)]
    assert pruned(world_with(recoveries)) == []


def test_instances_that_are_gone_share_what_is_kept() -> None:
    """Every rollout draws new names of PodSets: each with few recoveries, all of them together without end."""
    gone_sets = [
        recovery(n, unit=f"ml/j/set-{n}", controller=WorkloadRef("v1", "AscendJob", f"set-{n}", f"uid-set-{n}"))
        for n in range(KEPT + 3)
    ]
    unknown = world_with(gone_sets)
    unknown.kinds.discard("AscendJob")  # not served at the moment: nobody can say that they are gone
    assert pruned(unknown) == []
    assert prune_all(world_with(gone_sets)) == 3


def test_pods_of_drawn_names_are_kept_by_their_template() -> None:
    drawn = [
        recovery(
            n, unit=f"ml/d/d-abc-{n:05}", level="Pod", instance=f"d-abc-{n:05}", history=History("ml/d/d-abc-*", 0)
        )
        for n in range(KEPT + 4)
    ]
    assert prune_all(world_with(drawn)) == 4


def test_an_escalated_recovery_never_outlives_the_one_that_followed_it() -> None:
    """Else the whole job would be restarted once more for it."""
    pair = [
        recovery(0, level="Pod", instance="j-master-0", phase="Escalated", name="pod-level"),
        recovery(1, escalated_from="pod-level", name="whole"),
    ]
    world = world_with([*pair, *(recovery(n) for n in range(2, KEPT + 2))])
    assert pruned(world) == ["pod-level"]
    assert prune_all(world) == 2
    assert not any(isinstance(action, OpenRecovery) for action in decide(world).actions)


def test_a_unit_says_in_each_recovery_what_it_had_before() -> None:
    world = world_with([recovery(0, charged=1), recovery(1, charged=0), recovery(2, charged=2)])
    hear(world, report("a", a_fault(level=FaultLevel.SEPARATE_NPU)), report("b"))
    (opened,) = [action for action in decide(world).actions if isinstance(action, OpenRecovery)]
    assert opened.spec.history == History("ml/j", 3, 3)


def test_the_name_of_an_episode_does_not_depend_on_what_has_been_removed() -> None:
    """Two leaders, of whom one has not yet seen a removal, still make one object."""

    def name(recoveries: list[dict[str, Any]]) -> str:
        world = world_with(recoveries)
        hear(world, report("a", a_fault()), report("b"))
        return next(action.name for action in decide(world).actions if isinstance(action, OpenRecovery))

    all_of_them = [recovery(n) for n in range(KEPT)]
    assert name(all_of_them) == name(all_of_them[3:])
    assert name(all_of_them) != name(all_of_them[:-1])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_retries_used_do_not_fall_when_old_recoveries_go(charges: list[int]) -> None:
    kept = world_with([])
    pruning = world_with([])
    for number, charged in enumerate(charges):
        for world in (kept, pruning):
            history = retries.history_of(unit_in(world), Index(world.snapshot()))
            assert history.recoveries == number
            fold.observe(world, "Recovery", "set", recovery(number, charged=charged, history=history))
        prune_all(pruning)
        used = [retries.used(unit_in(world), Index(world.snapshot())) for world in (kept, pruning)]
        assert used == [sum(charges[: number + 1])] * 2
    assert len(pruning.recoveries) <= KEPT


def test_retries_of_drawn_names_do_not_fall_either() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ml", "uid": "uid-d", "labels": {"fault-retry-times": "100"}},
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "d-abc",
            "namespace": "ml",
            "uid": "uid-d-abc",
            "ownerReferences": [owner_ref(deployment)],
        },
        "spec": {"replicas": 1},
    }
    top = WorkloadRef("apps/v1", "Deployment", "d", "uid-d")
    controller = WorkloadRef("apps/v1", "ReplicaSet", "d-abc", "uid-d-abc")
    world = world_of([node("a"), deployment, replica_set])
    world.kinds |= {"Deployment", "ReplicaSet"}
    for number in range(KEPT + 10):
        name = f"d-abc-{number:05}"
        drawn = pod(name, "a", replica_set)
        drawn["metadata"]["generateName"] = "d-abc-"
        fold.observe(world, "Pod", "set", drawn)
        unit = unit_in(world, f"ml/{name}")
        history = retries.history_of(unit, Index(world.snapshot()))
        made = recovery(
            number,
            unit=unit.id,
            level="Pod",
            instance=name,
            charged=1,
            workload=top,
            controller=controller,
            history=history,
            name=name,
        )
        fold.observe(world, "Recovery", "set", made)
        prune_all(world)
        assert retries.used(unit, Index(world.snapshot())) == number + 1
    assert len(world.recoveries) == KEPT


def drive(store: Store, action: Action) -> Outcome:
    step = steps_for(action, "me", T0)
    try:
        call: Call = next(step)
        while True:
            reply = store.request(call.method, call.path, body=call.body, content_type=call.content_type)
            call = step.send(Reply(reply.status, reply.body))
    except StopIteration as stop:
        outcome: Outcome = stop.value
        return outcome


@pytest.mark.parametrize(
    ("meanwhile", "done", "stands"),
    [("nothing", True, False), ("written", False, True), ("removed", True, False), ("replaced", False, True)],
)
def test_only_the_very_version_that_was_decided_on_is_removed(meanwhile: str, done: bool, stands: bool) -> None:
    store = Store(lambda: T0.wall)
    path = "/apis/npuwarden.io/v1alpha1/namespaces/ml/recoveries/j-000"
    made = store.load(recovery(0))
    world = world_with([made, *(recovery(n) for n in range(1, KEPT + 1))])
    (action,) = plan_retention(world.snapshot())
    if meanwhile in ("removed", "replaced"):
        assert store.request("DELETE", path).status == 200
    if meanwhile == "replaced":
        store.load({**recovery(0), "metadata": {"name": "j-000", "namespace": "ml"}})
    if meanwhile == "written":
        store.load({**made, "spec": {**made["spec"], "origin": "drill"}})
    outcome = drive(store, action)
    assert outcome.done is done
    assert (store.request("GET", path).status == 200) is stands
    fold.outcome(world, action, outcome, T0)
    assert ("ml/j-000" in world.recoveries) is stands
