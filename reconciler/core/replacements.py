"""The new pods of a unit in mid-recovery: who is back, where, how far. Judged by pods, never by owner status."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.core import clock
from reconciler.core.objects import Pod, Recovery
from reconciler.core.units import Index
from reconciler.workloads import members


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
    size = spec.size
    if spec.level == "Pod":
        pods = _single(pods, recovery)
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


def _single(pods: list[Pod], recovery: Recovery) -> list[Pod]:
    """At pod level: the pod of the same name, or, where names are drawn anew, the first one made since the claim."""
    names = {target.pod for target in recovery.spec.targets}
    same = [pod for pod in pods if pod.metadata.name in names]
    if same:
        return same
    claimed = clock.parse(recovery.status.times.claimed)
    role = recovery.spec.instance.rpartition("-")[0]
    made = [
        pod
        for pod in pods
        if claimed is not None
        and (clock.parse(pod.metadata.creation_timestamp) or 0.0) >= int(claimed)
        and pod.metadata.name.rpartition("-")[0] == role
    ]
    return sorted(made, key=lambda pod: pod.metadata.name)[:1]


def _unschedulable(pod: Pod) -> bool:
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def _group_waits(recovery: Recovery, index: Index) -> bool:
    """The unit's PodGroup is Pending: its controller makes no pods until the queue admits it."""
    owner = recovery.spec.controller
    if owner is None:
        return False
    return any(group.status.get("phase") == "Pending" for group in index.owned_groups(owner.uid))
