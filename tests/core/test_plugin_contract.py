"""What every workload plugin owes, for any mixture of pods and owners, half of them missing or marked as another's."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.objects import Meta, Pod
from reconciler.core.recovery import Cause, Recovery, RecoverySpec
from reconciler.core.state import World
from reconciler.core.units import Index, NoUnit, Unit
from reconciler.workloads import WORKLOADS, members, unit_of
from tests.core.build import Object, ascend_job, pod
from tests.core.test_workloads import ALL
from tests.core.worlds import world_of

LABELS = tuple(sorted(plugin.label for plugin in set(WORKLOADS.values()) if plugin.label))


def coordinator() -> list[Object]:
    """A job whose pods restart one by one."""
    labels = {"fault-scheduling": "force", "app": "mindie-ms-coordinator", "pod-rescheduling": "on"}
    job = ascend_job("ms", labels=labels, replicas=2)
    return [job, *(pod(f"ms-{role}-0", "a", job) for role in ("master", "worker"))]


FLEET = [obj for make in (*ALL.values(), coordinator) for obj in make()]


Change = tuple[int, str, str, str]
"""Number of the object, what becomes of it, and a label to mark it with."""
CHANGES = st.lists(
    st.tuples(
        st.integers(0, len(FLEET) - 1),
        st.sampled_from(["drop", "mark", "terminate"]),
        st.sampled_from(LABELS),
        st.sampled_from(["llm", "my-0", "other"]),
    ),
    max_size=12,
)


TURN = st.integers(0, len(FLEET) - 1)


def fleet(changes: list[Change], turn: int) -> World:
    """Parts of the fleet; some pods carry another plugin's label, some objects terminate."""
    objects: dict[int, Object] = dict(enumerate(FLEET))
    for number, fate, label, value in changes:
        obj = copy.deepcopy(objects.get(number, FLEET[number]))
        if fate == "drop":
            objects.pop(number, None)
            continue
        if fate == "mark" and obj["kind"] == "Pod":
            obj["metadata"]["labels"][label] = value
        elif fate == "terminate":
            obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        objects[number] = obj
    return world_of([objects[n] for n in sorted(objects, key=lambda n: (n - turn) % len(FLEET))])


def claimed(found: Pod) -> Any:
    """Which plugin a pod belongs to, by the rule alone: a label where an ordinary controller made it, else that."""
    ref = found.metadata.controller
    direct = None if ref is None else f"{ref.kind}.{ref.api_version.rpartition('/')[0]}"
    for label in LABELS:
        if label in found.metadata.labels and direct in ("StatefulSet.apps", "ReplicaSet.apps"):
            return WORKLOADS[label]
    return None if direct is None else WORKLOADS.get(direct)


def answers(world: World) -> dict[str, Unit | NoUnit]:
    index = Index(world.snapshot())
    return {key: unit_of(found, index) for key, found in world.pods.items()}


@settings(max_examples=60, deadline=None)
@given(CHANGES, TURN)
def test_a_unit_holds_its_pod_and_only_pods_of_its_plugin_and_namespace(changes: list[Change], turn: int) -> None:
    world = fleet(changes, turn)
    for key, unit in answers(world).items():
        if isinstance(unit, NoUnit):
            assert unit.reason in ("no-owner", "owner-deleted")
            continue
        names = [p.metadata.key for p in unit.pods]
        assert key in names
        assert len(names) == len(set(names))
        assert {claimed(p) for p in unit.pods} == {claimed(world.pods[key])}
        assert {p.metadata.namespace for p in unit.pods} == {unit.namespace}


@settings(max_examples=60, deadline=None)
@given(CHANGES, TURN)
def test_no_pod_belongs_to_two_units(changes: list[Change], turn: int) -> None:
    world = fleet(changes, turn)
    units = {unit.key: unit for unit in answers(world).values() if isinstance(unit, Unit)}
    names = [p.metadata.key for unit in units.values() for p in unit.pods]
    assert len(names) == len(set(names))


@settings(max_examples=40, deadline=None)
@given(CHANGES, TURN)
def test_the_answer_depends_on_the_objects_alone(changes: list[Change], turn: int) -> None:
    world = fleet(changes, turn)
    before = copy.deepcopy((world.pods, world.owners, world.groups))
    first = answers(world)
    assert answers(world) == first
    assert (world.pods, world.owners, world.groups) == before


@settings(max_examples=40, deadline=None)
@given(CHANGES, TURN)
def test_a_recovery_finds_all_pods_of_its_unit_and_none_of_another_plugin(changes: list[Change], turn: int) -> None:
    world = fleet(changes, turn)
    index = Index(world.snapshot())
    for unit in answers(world).values():
        if isinstance(unit, NoUnit):
            continue
        spec = RecoverySpec(
            unit.workload,
            unit.id,
            unit.level,
            "force",
            Cause("Hardware"),
            instance=unit.instance,
            controller=unit.controller,
        )
        found = members(Recovery(Meta("r", namespace=unit.namespace), spec), index)
        assert {p.metadata.key for p in unit.pods} <= {p.metadata.key for p in found}
        assert {claimed(p) for p in found} == {claimed(p) for p in unit.pods}
