"""Each action as a chain of API calls with preconditions and read-backs. Generators: no I/O here, see calls.py."""

from __future__ import annotations

from reconciler.core import (
    delete_steps,
    hand_over_steps,
    ledger_steps,
    node_steps,
    publishing_steps,
    recovery_steps,
    separation_steps,
)
from reconciler.core.actions import (
    Action,
    Claim,
    DeletePods,
    HandOver,
    Isolate,
    KeepOffered,
    KeepRecord,
    KeepSeparations,
    OpenRecovery,
    Progress,
    Prune,
    PublishTable,
    Release,
    ReturnCharge,
    SetCondition,
    Tell,
    WriteLedger,
)
from reconciler.core.calls import Step
from shared.model import Instant


def steps_for(action: Action, holder: str, now: Instant) -> Step:
    """The calls that carry out one action. `holder` is this leader, for the claim's last look."""
    match action:
        case Isolate():
            return node_steps.isolate(action, now)
        case KeepRecord():
            return node_steps.keep_record(action)
        case KeepOffered():
            return node_steps.keep_offered(action)
        case Release():
            return node_steps.release(action, now)
        case SetCondition():
            return node_steps.set_condition(action, now)
        case OpenRecovery():
            return recovery_steps.open_recovery(action, now)
        case Claim():
            return recovery_steps.write_recovery(action.recovery, {"/spec": action.spec, "/status": action.status})
        case Progress():
            return recovery_steps.progress(action, now)
        case WriteLedger():
            return ledger_steps.write_ledger(action)
        case KeepSeparations():
            return separation_steps.keep_separations(action)
        case PublishTable():
            return publishing_steps.publish_table(action)
        case ReturnCharge():
            return recovery_steps.return_charge(action, now)
        case Tell():
            return recovery_steps.tell(action, now)
        case Prune():
            return recovery_steps.prune(action)
        case DeletePods():
            return delete_steps.delete_pods(action, holder)
        case HandOver():
            return hand_over_steps.hand_over(action, holder)
