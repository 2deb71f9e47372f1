"""The deletes of the last minute, counted from the cluster: a new leader goes on with its predecessor's ration."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.core import clock
from reconciler.core.objects import Pod
from reconciler.core.recovery import Recovery
from reconciler.core.state import World
from reconciler.core.units import EXTERNAL
from shared.model import Instant

MINUTE_S = 60.0


def deletes_of_late(world: World, now: Instant) -> list[float]:
    """When pods were deleted within the last minute, oldest first (monotonic seconds).

    The journal says that a pod was deleted and not always when: where it leaves a choice, the later moment is taken,
    which costs at most a minute.
    """
    ages = (
        now.wall - min(at, now.wall) for recovery in world.recoveries.values() for at in _moments(world, recovery, now)
    )
    return sorted(now.mono - age for age in ages if age < MINUTE_S)


def _moments(world: World, recovery: Recovery, now: Instant) -> Iterator[float]:
    spec, status = recovery.spec, recovery.status
    if status.times.claimed is None or spec.method.startswith(EXTERNAL):
        return
    # In Deleting the times are of an earlier round, if there was one.
    over = None if status.phase == "Deleting" else clock.parse(status.times.gone or status.times.deleted)
    for target in spec.targets:
        pod = world.pods.get(f"{recovery.metadata.namespace}/{target.pod}")
        if pod is None or pod.metadata.uid != target.uid:
            yield now.wall if over is None else over
        elif pod.terminating:
            yield asked_at(pod, now) + 1  # the API server writes whole seconds


def asked_at(pod: Pod, now: Instant) -> float:
    """When the delete was asked for: the API server writes down when the grace ends."""
    ends = clock.parse(pod.metadata.deletion_timestamp)
    return now.wall if ends is None else ends - (pod.metadata.deletion_grace_period_seconds or 0)
