"""Timers that began before this leader: a change of leaders starts no patience and no window anew.

Only what is older than the leader is taken from what others wrote down; what it has seen begin it dates itself. Each
age is a difference on one clock, or the smaller of two clocks' answers: a clock that is wrong alone shortens nothing.
"""

from __future__ import annotations

from reconciler.core import clock
from reconciler.core.objects import Pod
from reconciler.core.ration import asked_at
from reconciler.core.recovery import Recovery
from reconciler.core.state import World
from shared.model import Fault, Instant, NodeReport


def begun(world: World, age_s: float, now: Instant) -> float:
    """Monotonic time at which something of this age began; now, when that is within the leader's own time."""
    return now.mono - age_s if age_s > now.mono - world.leader_since else now.mono


def ending_s(recovery: Recovery, pod: Pod, now: Instant) -> float:
    """Seconds since the delete of a target, 0 when nobody can say.

    By the API server's clock, but never from before the claim by a leader's: each may be behind.
    """
    claimed = clock.parse(recovery.status.times.claimed)
    return 0.0 if claimed is None else max(0.0, now.wall - max(claimed, asked_at(pod, now)))


def waiting_s(recovery: Recovery, pod: Pod, now: Instant) -> float:
    """Seconds for which the pod of a pod-level restart has been unbound, or bound and not Ready; 0 when nobody can say.

    By the API server's and the kubelet's clocks, but never from before the claim by a leader's.
    """
    claimed = clock.parse(recovery.status.times.claimed)
    if not pod.node:
        marks = [clock.parse(pod.metadata.creation_timestamp)]
    else:
        told = [c for c in map(pod.condition, ("PodScheduled", "Ready")) if c is not None]
        marks = [clock.parse(condition.last_transition_time) for condition in told] or [None]
    known = [mark for mark in (claimed, *marks) if mark is not None]
    return max(0.0, now.wall - max(known)) if len(known) == 1 + len(marks) else 0.0


def open_s(report: NodeReport, fault: Fault) -> float:
    """Seconds for which a fault had been open when its report was written, both by the node's clock."""
    return max(0.0, report.at - fault.since)
