"""Other hands that restart pods: whether one of them holds a unit, so that ours stays off it."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.core.objects import Pod
from reconciler.core.state import State

_VOLCANO = "volcano"


def stand_down(state: State, pods: Iterable[Pod]) -> tuple[str, str] | None:
    """(reason, message) where MindCluster's plugin in Volcano restarts these pods itself; None = they are ours.

    The plugin acts on the pods its own scheduler places, and on no others.
    """
    if state.npu_scheduler and any(pod.spec.scheduler_name == _VOLCANO for pod in pods):
        message = "MindCluster's scheduler plugin restarts it: two hands on one unit are never right"
        return "stand-down", message
    return None
