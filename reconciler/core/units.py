"""What restarts together: the unit of a pod, and what its labels allow.

A workload plugin (reconciler/workloads) says to which unit a pod belongs; everything here is the same for all kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from reconciler.core.capacity import Capacity
from reconciler.core.objects import Owner, OwnerReference, Pod
from reconciler.core.recovery import Recovery, WorkloadRef
from reconciler.core.state import State
from reconciler.core.tables import Tables, group_key

FAULT_SCHEDULING = "fault-scheduling"
FAULT_RETRY_TIMES = "fault-retry-times"
POD_RESCHEDULING = "pod-rescheduling"
SUB_HEALTHY = "subHealthyStrategy"
_EXTERNAL_METHODS = frozenset({"external-force", "external-grace"})


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that restart together.

    id: `namespace/workload[/instance]`. level: Job | Instance | Pod. chain: controllers above the pods, nearest first.
    size: pods a whole unit has by its owner's spec, 0 = it does not say. blocked: (reason, message) when its kind
    forbids a restart now. beyond: the larger unit that restarts when this one does not come back; None = it never
    escalates. rounds_left: restarts that its controller still allows before it gives up; None = it sets no limit.
    operator: whether the operator that restarts units of this kind when a pod is marked is running; None = this kind
    has no such operator. repairs: who replaces a pod that has Failed by itself, as a sentence; "" = nobody does.
    """

    id: str
    namespace: str
    instance: str
    level: str
    workload: WorkloadRef
    controller: WorkloadRef
    pods: tuple[Pod, ...]
    chain: tuple[Owner, ...]
    size: int
    blocked: tuple[str, str] | None = None
    beyond: Unit | None = None
    rounds_left: int | None = None
    operator: bool | None = None
    repairs: str = ""

    @property
    def key(self) -> str:
        """One episode at a time has this key: at pod level a job's pods restart independently of each other."""
        return episode_key(self.id, self.level, self.instance)


def episode_key(unit_id: str, level: str, instance: str) -> str:
    return f"{unit_id}#{instance}" if level == "Pod" else unit_id


@dataclass(frozen=True, slots=True)
class NoUnit:
    """A pod that nobody would bring back, or whose owner cannot be seen."""

    id: str
    reason: str
    message: str


class Index:
    """Look-ups over one snapshot, each built once and only when asked for. tables: those of this snapshot, if kept."""

    def __init__(self, state: State, tables: Tables | None = None) -> None:
        self.state = state
        self._kept = tables
        self.units: dict[int, tuple[Pod, Unit | NoUnit]] = {}
        """What `unit_of` has answered, by the identity of the pod, which is kept so that no other takes its place."""
        self._by_label: dict[str, Mapping[tuple[str, str], list[Pod]]] = {}

    @cached_property
    def capacity(self) -> Capacity:
        return Capacity(self.state)

    @cached_property
    def _tables(self) -> Tables:
        if self._kept is not None:
            return self._kept
        fresh = Tables()
        fresh.follow(self.state.pods, self.state.owners, self.state.groups)
        return fresh

    @property
    def by_node(self) -> Mapping[str, list[Pod]]:
        """Pods by their node, in the order of their keys."""
        return self._tables.by_node

    @property
    def by_controller(self) -> Mapping[str, list[Pod]]:
        """Pods by the UID of their controller, in the order of their names."""
        return self._tables.by_controller

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Owner]:
        return {(owner.kind, owner.metadata.key): owner for owner in self.state.owners.values()}

    def named(self, kind: str, namespace: str, name: str) -> Owner | None:
        """An owner by name, for pods that refer to it by a label."""
        return self._by_name.get((kind, f"{namespace}/{name}"))

    @cached_property
    def _by_owner(self) -> Mapping[str, list[Owner]]:
        table: dict[str, list[Owner]] = defaultdict(list)
        for owner in self.state.owners.values():
            if (above := owner.metadata.controller) is not None:
                table[above.uid].append(owner)
        return table

    def owned(self, uid: str) -> list[Owner]:
        """The controllers right below this one (the ReplicaSets of a Deployment)."""
        return self._by_owner.get(uid, [])

    def labelled(self, label: str, namespace: str, value: str) -> list[Pod]:
        """Pods of a namespace by the value of a label, in order of their names."""
        if label not in self._by_label:
            table: dict[tuple[str, str], list[Pod]] = defaultdict(list)
            for pod in self.state.pods.values():
                if label in pod.metadata.labels:
                    table[pod.metadata.namespace, pod.metadata.labels[label]].append(pod)
            for pods in table.values():
                pods.sort(key=lambda pod: pod.metadata.name)
            self._by_label[label] = table
        return self._by_label[label].get((namespace, value), [])

    def owner(self, ref: OwnerReference | None) -> Owner | None:
        return None if ref is None else self.state.owners.get(ref.uid)

    def chain(self, nearest: OwnerReference | None) -> tuple[Owner, ...]:
        """The controllers from this one upwards that we can see, nearest first."""
        found: list[Owner] = []
        owner = self.owner(nearest)
        while owner is not None and owner not in found:
            found.append(owner)
            owner = self.owner(owner.metadata.controller)
        return tuple(found)

    def groups(self, unit: Unit) -> list[Owner]:
        """The PodGroups of a unit: those its pods name, and those its controller owns (its pods may be gone)."""
        found = {group.metadata.uid: group for pod in unit.pods if (group := self._named_group(pod)) is not None}
        found |= {group.metadata.uid: group for group in self.owned_groups(unit.controller.uid)}
        return list(found.values())

    def _named_group(self, pod: Pod) -> Owner | None:
        name = group_key(pod)
        return self.state.groups.get(name) if name else None

    @cached_property
    def _groups_by_owner(self) -> Mapping[str, list[Owner]]:
        table: dict[str, list[Owner]] = defaultdict(list)
        for group in self.state.groups.values():
            for ref in group.metadata.owner_references:
                table[ref.uid].append(group)
        return table

    @cached_property
    def recoveries_by_unit(self) -> Mapping[str, list[Recovery]]:
        """All that are kept, open or not, by `spec.unit`."""
        return self._recoveries(lambda recovery: recovery.spec.unit)

    @cached_property
    def recoveries_by_workload(self) -> Mapping[str, list[Recovery]]:
        """The same by the UID of the workload."""
        return self._recoveries(lambda recovery: recovery.spec.workload.uid)

    def _recoveries(self, key: Callable[[Recovery], str]) -> Mapping[str, list[Recovery]]:
        table: dict[str, list[Recovery]] = {}
        for recovery in self.state.recoveries.values():
            table.setdefault(key(recovery), []).append(recovery)
        return table

    def owned_groups(self, controller_uid: str) -> list[Owner]:
        """PodGroups that name this controller as an owner."""
        return self._groups_by_owner.get(controller_uid, [])


def ref_of(owner: Owner) -> WorkloadRef:
    return WorkloadRef(owner.api_version, owner.kind, owner.metadata.name, owner.metadata.uid)


def label_values(unit: Unit, index: Index, label: str) -> set[str]:
    """Every value the label has on the unit's pods, their PodGroups and the controllers above."""
    places: list[Mapping[str, str]] = [pod.metadata.labels for pod in unit.pods]
    places += [owner.metadata.labels for owner in unit.chain]
    places += [group.metadata.labels for group in index.groups(unit)]
    return {place[label] for place in places if label in place}


EXTERNAL = "external-"
"""Prefix of the methods by which an operator restarts the unit: the warden marks its pods and deletes none."""


def hand_of(unit: Unit, method: str) -> str:
    """The same method by the hand that is there for it: the operator's where it runs, else ours.

    Two hands on one unit are never right, and an operator that runs acts on its own: it decides, not the label.
    """
    plain = method.removeprefix(EXTERNAL)
    return EXTERNAL + plain if unit.operator else plain


@dataclass(frozen=True, slots=True)
class Method:
    """How the unit may be restarted: force, grace, or one of them with the prefix `external-`; or None and why not."""

    name: str | None
    reason: str = ""
    message: str = ""


def method_of(unit: Unit, index: Index) -> Method:
    """Reads `fault-scheduling`. A missing, unknown or contradicting value means off, and says so.

    Source: MindCluster's label; `external-force` and `external-grace` are for units that an operator can restart.
    """
    values = label_values(unit, index, FAULT_SCHEDULING)
    if not values:
        return Method(None, "label-missing", f"no label {FAULT_SCHEDULING} on its pods, PodGroup or owner")
    if len(values) > 1:
        shown = ", ".join(sorted(values))
        return Method(None, "label-invalid", f"label {FAULT_SCHEDULING} has different values: {shown}")
    value = values.pop()
    if value in ("force", "grace") or (unit.operator is not None and value in _EXTERNAL_METHODS):
        return Method(hand_of(unit, value))
    if value in _EXTERNAL_METHODS:
        message = f"label {FAULT_SCHEDULING}={value} is for infer-operator workloads alone: set it to force or grace"
        return Method(None, "label-invalid", message)
    if value == "off":
        return Method(None, "label-off", f"label {FAULT_SCHEDULING} is off")
    return Method(None, "label-invalid", f"label {FAULT_SCHEDULING}={value!r} is none of force, grace, off")


def retry_limit(unit: Unit, index: Index) -> int | None:
    """`fault-retry-times` as a number above 0; None when it is missing, contradicting or no such number."""
    values = label_values(unit, index, FAULT_RETRY_TIMES)
    if len(values) != 1:
        return None
    value = values.pop()
    return int(value) if value.isdecimal() and int(value) > 0 else None


def only_value(values: Iterable[str], default: str) -> str:
    """The one value, or the default when there is none or more than one."""
    found = set(values)
    return found.pop() if len(found) == 1 else default
