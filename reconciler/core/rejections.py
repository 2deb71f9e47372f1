"""Nodes whose kubelet turns pods away: each restart that lands there is swallowed, whatever the agent reports.

A witness in Kubernetes itself, for what no probe of the node sees: a broken device plugin, a driver that cannot open
its devices. Source: kubelet admission (phase Failed, reason UnexpectedAdmissionError) and container start errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.core import clock
from reconciler.core.objects import Owner, Pod
from reconciler.core.state import Memory, Rejection, State
from shared.model import Instant

CODE = "NW-NODE-REJECTS-PODS"
WINDOW_S = 300.0
WORKLOADS = 2
"""Pods of one workload alone may be turned away for a fault of their own."""

_TURNED_AWAY = "UnexpectedAdmissionError"
_START_ERRORS = frozenset({"CreateContainerError", "RunContainerError", "StartError"})
_DEVICE_WORDS = ("davinci", "devmm", "hisi_hdc", "ascend", "npu")


def rejection_of(pod: Pod) -> str | None:
    """How the node has turned the pod away, in its own words; None = it has not, or not for its devices."""
    status = pod.status
    if not pod.npus or not pod.node:
        return None
    if pod.failed and status.reason == _TURNED_AWAY:
        return status.message or _TURNED_AWAY
    for container in status.container_statuses or ():
        for trouble in (container.state.waiting, container.state.terminated):
            if trouble is None or trouble.reason not in _START_ERRORS:
                continue
            if any(word in trouble.message.lower() for word in _DEVICE_WORDS):
                return f"{trouble.reason}: {trouble.message}"
    return None


def remember(memory: Memory, pod: Pod) -> None:
    """Note a pod that was turned away: it may be replaced within milliseconds. `forget` gives the note its time."""
    why = rejection_of(pod)
    if why is not None and pod.node:
        ref = pod.metadata.controller
        note = Rejection(pod.metadata.key, ref.uid if ref else pod.metadata.uid, why)
        memory.rejections.setdefault(pod.node, {}).setdefault(pod.metadata.uid, note)


def forget(memory: Memory, pods: Mapping[str, Pod], now: Instant, *, young: bool) -> None:
    """Date the new notes, and drop the old ones whose pod is gone: one that stays would be taken for news.

    young: a leader that has just begun finds pods that were turned away long ago: they are as old as they say.
    """
    for node, notes in list(memory.rejections.items()):
        for uid, note in list(notes.items()):
            if note.at is None:
                age_s = _age_s(pods.get(note.pod), now) if young else 0.0
                notes[uid] = replace(note, at=now.mono - age_s)
            elif now.mono - note.at > WINDOW_S and ((pod := pods.get(note.pod)) is None or pod.metadata.uid != uid):
                del notes[uid]
        if not notes:
            del memory.rejections[node]


def _age_s(pod: Pod | None, now: Instant) -> float:
    """Since the pod was bound, or created: not long before its node turned it away."""
    if pod is None:
        return 0.0
    scheduled = pod.condition("PodScheduled")
    bound = clock.parse(scheduled.last_transition_time) if scheduled is not None else None
    since = bound or clock.parse(pod.metadata.creation_timestamp)
    return max(0.0, now.wall - since) if since is not None else 0.0


def rejected(state: State, node: str, now: float) -> tuple[str, ...]:
    """What this node has turned away of late, a line a pod; empty unless pods of several workloads are among it."""
    notes = [n for n in state.memory.rejections.get(node, {}).values() if n.at is not None and now - n.at <= WINDOW_S]
    if len({_top(state.owners, note.controller) for note in notes}) < WORKLOADS:
        return ()
    return tuple(sorted(f"{note.pod} ({note.why})" for note in notes))


def _top(owners: Mapping[str, Owner], uid: str) -> str:
    seen = {uid}
    while (owner := owners.get(uid)) is not None and (ref := owner.metadata.controller) is not None:
        if ref.uid in seen:
            break
        uid = ref.uid
        seen.add(uid)
    return uid
