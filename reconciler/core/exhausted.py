"""The end of a unit's restarts: said once, in a Recovery that is finished from the start, and refused from then on.

A unit is given up for its present pods alone: when somebody replaces them, raises the limit or re-creates the owner,
the next failure is looked at afresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from reconciler.core.actions import Hold, OpenRecovery
from reconciler.core.state import State
from reconciler.core.units import Unit

SHOWN_NAME = 40


def give_up(state: State, unit: Unit, attempt: OpenRecovery, hold: Hold) -> Iterator[OpenRecovery | Hold]:
    """The refusal, and the object that keeps it, unless it stands already.

    attempt: the episode that would have been opened. hold: why it is not.
    """
    name = exhausted_name(unit, hold.reason)
    if f"{unit.namespace}/{name}" not in state.recoveries and not _said(state, unit, hold.reason):
        detected = attempt.status.times.detected
        status = replace(
            attempt.status,
            phase="Exhausted",
            reason=hold.reason,
            message=hold.message,
            charged=0,
            times=replace(attempt.status.times, finished=detected),
        )
        yield OpenRecovery(unit.namespace, name, attempt.spec, status)
    yield hold


def _said(state: State, unit: Unit, reason: str) -> bool:
    """An episode has ended so with these very pods: they came back where they must not stay, and no round is left."""
    uids = {pod.metadata.uid for pod in unit.pods}
    return any(
        (recovery.spec.unit, recovery.status.phase, recovery.status.reason) == (unit.id, "Exhausted", reason)
        and {target.uid for target in recovery.status.replacements} == uids
        for recovery in state.recoveries.values()
    )


def exhausted_name(unit: Unit, reason: str) -> str:
    """The same for the same pods, whoever gives up."""
    uids = sorted(pod.metadata.uid for pod in unit.pods)
    text = "/".join([unit.id, unit.workload.uid, unit.instance, reason, *uids])
    return f"{unit.workload.name[:SHOWN_NAME].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
