"""Which changes of a Recovery a person is told of, as Events on its workload."""

from __future__ import annotations

from collections.abc import Generator

from reconciler.core.calls import Call
from reconciler.core.events import event
from reconciler.core.proving import UNLABELLED, UNVERIFIED
from reconciler.core.recovery import Recovery, RecoveryStatus
from shared.model import Instant

_TOLD_CONDITIONS = {"Overdue": "RecoveryOverdue", UNVERIFIED: UNVERIFIED, UNLABELLED: UNLABELLED}
_GOOD_ENDS = ("Recovered", "Aborted")


def events_of(recovery: Recovery, status: RecoveryStatus, now: Instant) -> Generator[Call, object, None]:
    """The Events of a new status that has been written."""
    meta, spec, before = recovery.metadata, recovery.spec, recovery.status

    def tell(reason: str, kind: str, text: str) -> Call:
        ref = spec.workload
        message = f"recovery {meta.name} of {spec.unit}: {text}"
        about = (ref.kind, meta.namespace, ref.name, ref.uid)
        return event(*about, reason, message, kind, now, drill=spec.origin == "drill")

    known = {(condition.type, condition.reason) for condition in before.conditions}
    for condition in status.conditions:
        reason = _TOLD_CONDITIONS.get(condition.type)
        if reason is not None and (condition.type, condition.reason) not in known:
            yield tell(reason, "Warning", condition.message)
    if status.times.finished is not None:
        reason = "Recovered" if status.phase == "Recovered" else f"Recovery{status.phase}"
        yield tell(reason, "Normal" if status.phase in _GOOD_ENDS else "Warning", status.message)
    elif status.phase == "WaitingForCapacity" != before.phase:
        yield tell("WaitingForCapacity", "Warning", status.message)
    elif status.reason == "rank-table" != before.reason:
        yield tell("WaitingForRankTable", "Normal", status.message)
