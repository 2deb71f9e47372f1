"""The new pods of a unit in mid-recovery: who is back, where, how far. Judged by pods, never by owner status."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.core import clock
from reconciler.core.objects import Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, Unit
from reconciler.workloads import members, unit_of

AHEAD_S = 30.0
"""A ReplicaSet replaces a pod that Failed at once; a new leader opens its recovery so much later."""


@dataclass(frozen=True, slots=True)
class Replacements:
    """pods: the unit's pods now, without the old incarnations. starved: capacity is what is missing."""

    pods: tuple[Pod, ...]
    complete: bool
    bound: bool
    ready: bool
    starved: bool
    text: str


def replacements_of(recovery: Recovery, index: Index) -> Replacements:
    spec = recovery.spec
    old = {target.uid for target in spec.targets}
    pods = [pod for pod in members(recovery, index) if pod.metadata.uid not in old and not pod.terminating]
    size = _size_now(pods, index) or spec.size
    if spec.level == "Pod":
        pods = _single(pods, recovery, index)
        size = 1
    complete = len(pods) >= size
    bound = complete and all(pod.node for pod in pods)
    ready = bound and all(pod.ready for pod in pods)
    unschedulable = [pod for pod in pods if not pod.node and _unschedulable(pod)]
    starved = bool(unschedulable) or (not complete and _group_waits(recovery, index))
    if unschedulable:
        condition = unschedulable[0].condition("PodScheduled")
        text = f"{unschedulable[0].metadata.name} cannot be placed: {condition.message if condition else ''}"
    elif starved:
        text = f"{len(pods)} of {size} pods exist: the PodGroup waits for capacity"
    else:
        is_ready = sum(pod.ready for pod in pods)
        text = f"{len(pods)} of {size} pods exist, {sum(bool(p.node) for p in pods)} bound, {is_ready} Ready"
    return Replacements(tuple(pods), complete, bound, ready, starved, text)


def _size_now(pods: list[Pod], index: Index) -> int:
    """Pods the unit has by its owner's spec of today: it may have been scaled since the episode began."""
    unit = unit_of(pods[0], index) if pods else None
    return unit.size if isinstance(unit, Unit) else 0


def _single(pods: list[Pod], recovery: Recovery, index: Index) -> list[Pod]:
    """At pod level: the pod of the same name, or, where names are drawn anew, one made since this began.

    "Since" by the API server's clock on both sides. Of several that restart at once each takes another pod.
    """
    names = {target.pod for target in recovery.spec.targets}
    same = [pod for pod in pods if pod.metadata.name in names]
    if same:
        return same
    began = clock.parse(recovery.metadata.creation_timestamp or recovery.status.times.claimed)
    if began is not None and recovery.spec.cause.kind == "Software":
        began -= AHEAD_S
    others = [r for r in index.state.recoveries.values() if _alike(r, recovery)]
    taken = {target.uid for other in others for target in other.status.replacements}
    made = [
        pod
        for pod in pods
        if began is not None
        and (clock.parse(pod.metadata.creation_timestamp) or 0.0) >= int(began)
        and pod.metadata.generate_name
        and _role(pod.metadata.name) == _role(recovery.spec.instance)
        and pod.metadata.uid not in taken
    ]
    rank = sum(other.open and other.metadata.name < recovery.metadata.name for other in others)
    return sorted(made, key=lambda pod: pod.metadata.name)[rank : rank + 1]


def _alike(other: Recovery, recovery: Recovery) -> bool:
    """Another restart of a single pod of the same role of the same controller."""
    a, b = other.spec, recovery.spec
    same = (a.level, a.controller, _role(a.instance)) == (b.level, b.controller, _role(b.instance))
    return same and other.metadata.uid != recovery.metadata.uid


def _role(pod_name: str) -> str:
    return pod_name.rpartition("-")[0]


def _unschedulable(pod: Pod) -> bool:
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def _group_waits(recovery: Recovery, index: Index) -> bool:
    """The unit's PodGroup is Pending: its controller makes no pods until the queue admits it."""
    owner = recovery.spec.controller
    if owner is None:
        return False
    return any(group.status.get("phase") == "Pending" for group in index.owned_groups(owner.uid))
