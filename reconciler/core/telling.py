"""Pods that failed and that their own controller replaces: nothing is to be done, but a person is told, once of each.

Such a pod is gone within milliseconds, most often before a plan is made: it is noted when it is seen.
Source: AIBrix RoleSet controller (roles without PodSets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.core.actions import Tell
from reconciler.core.objects import Pod
from reconciler.core.state import Memory, SelfReplaced, State
from reconciler.core.units import Index, Unit, method_of
from reconciler.workloads import unit_of

REASON = "PodReplacedByItsController"
KEPT_S = 60.0
MOST = 1000
_CONTROLLERS = frozenset({"RoleSet"})


def note(memory: Memory, pod: Pod) -> None:
    """Remember a failed pod of such a controller, whatever becomes of it."""
    ref = pod.metadata.controller
    if pod.failed and ref is not None and ref.kind in _CONTROLLERS and len(memory.self_replaced) < MOST:
        memory.self_replaced.setdefault(pod.metadata.uid, SelfReplaced(pod))


def forget_told(memory: Memory, pods: Mapping[str, Pod], now: float) -> None:
    """Date the new notes, and drop the old ones whose pod has gone."""
    for uid, seen in list(memory.self_replaced.items()):
        if seen.at is None:
            memory.self_replaced[uid] = replace(seen, at=now)
        elif now - seen.at > KEPT_S and ((pod := pods.get(seen.pod.metadata.key)) is None or pod.metadata.uid != uid):
            del memory.self_replaced[uid]


def plan_told(state: State, index: Index) -> Iterator[Tell]:
    """One Event for each that has not been told of, where the workload has opted in."""
    for uid, seen in state.memory.self_replaced.items():
        unit = unit_of(seen.pod, index)
        if seen.told or not isinstance(unit, Unit) or not unit.repairs or method_of(unit, index).name is None:
            continue
        text = f"pod {seen.pod.metadata.name} on {seen.pod.node or 'no node'} Failed: {unit.repairs}"
        yield Tell(uid, unit.namespace, unit.workload, REASON, text)
