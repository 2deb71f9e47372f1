"""Steps on a Recovery: opened once whoever opens it, written only in the version that was decided on."""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.core.actions import OpenRecovery, Progress, Prune, ReturnCharge, Tell
from reconciler.core.calls import JSON_PATCH, Call, Outcome, Step, failed
from reconciler.core.events import event
from reconciler.core.recovery import FINISHED_PHASES, Recovery
from reconciler.core.recovery_events import events_of
from reconciler.core.resources import RECOVERY
from shared.model import Instant
from shared.names import API_VERSION


def open_recovery(action: OpenRecovery, now: Instant) -> Step:
    workload = action.spec.workload
    body = {
        "apiVersion": API_VERSION,
        "kind": "Recovery",
        "metadata": {
            "name": action.name,
            "namespace": action.namespace,
            "ownerReferences": [
                {
                    "apiVersion": workload.api_version,
                    "kind": workload.kind,
                    "name": workload.name,
                    "uid": workload.uid,
                    "controller": False,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": msgspec.to_builtins(action.spec),
        "status": msgspec.to_builtins(action.status),
    }
    reply = yield Call("POST", RECOVERY.collection(action.namespace), body)
    if reply.status == 409:
        # The same episode, opened by another leader or by a create whose answer got lost: it is the one we want.
        reply = yield Call("GET", RECOVERY.path(action.namespace, action.name))
        if not reply.ok:
            return failed(reply, f"read of recovery {action.name}")
        wanted_finished = action.status.phase in FINISHED_PHASES
        if not wanted_finished and (reply.body.get("status") or {}).get("phase") in FINISHED_PHASES:
            message = f"recovery {action.namespace}/{action.name} stands already and is finished"
            return Outcome(False, "conflict", message, (reply.body,))
        return Outcome(True, seen=(reply.body,))
    if not reply.ok:
        return failed(reply, f"create of recovery {action.namespace}/{action.name}")
    message = f"recovery {action.name}: {action.status.message}"
    reason = f"Recovery{action.status.phase}" if action.status.phase in FINISHED_PHASES else "RecoveryStarted"
    drill = action.spec.origin == "drill"
    about = (workload.kind, action.namespace, workload.name, workload.uid)
    yield event(*about, reason, message, "Warning", now, drill=drill)
    return Outcome(True, seen=(reply.body,))


def progress(action: Progress, now: Instant) -> Step:
    outcome: Outcome = yield from write_recovery(action.recovery, {"/status": action.status})
    if outcome.done:
        yield from events_of(action.recovery, action.status, now)
    return outcome


def return_charge(action: ReturnCharge, now: Instant) -> Step:
    """The corrected cause, with or after the restart that it explains."""
    outcome: Outcome = yield from write_recovery(action.recovery, {"/spec": action.spec, "/status": action.status})
    if outcome.done:
        meta, ref = action.recovery.metadata, action.spec.workload
        text = f"recovery {meta.name} of {action.spec.unit}: {action.status.conditions[-1].message}"
        yield event(ref.kind, meta.namespace, ref.name, ref.uid, "RetryReturned", text, "Normal", now)
    return outcome


def tell(action: Tell, now: Instant) -> Step:
    ref = action.workload
    yield event(ref.kind, action.namespace, ref.name, ref.uid, action.reason, action.message, "Warning", now)
    return Outcome(True)


def write_recovery(recovery: Recovery, values: dict[str, msgspec.Struct]) -> Step:
    """Replace whole parts of a Recovery, only in the version that the decision was made on."""
    meta = recovery.metadata
    path = RECOVERY.path(meta.namespace, meta.name)
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}]
    patch += [{"op": "add", "path": where, "value": msgspec.to_builtins(value)} for where, value in values.items()]
    reply = yield Call("PATCH", path, patch, JSON_PATCH)
    if reply.ok:
        return Outcome(True, seen=(reply.body,))
    if reply.status in (409, 422):
        fresh = yield Call("GET", path)
        if fresh.ok:
            return failed(reply, f"recovery {meta.key} was changed by someone else", fresh.body)
        reply = fresh
    if reply.status == 404:
        return Outcome(False, "not-found", f"recovery {meta.key} is gone", gone=(("Recovery", meta.key, meta.uid),))
    return failed(reply, f"write to recovery {meta.key}")


def prune(action: Prune) -> Step:
    meta = action.recovery.metadata
    wanted = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": wanted}
    path = RECOVERY.path(meta.namespace, meta.name)
    reply = yield Call("DELETE", path, options)
    if reply.ok or reply.status == 404:
        return Outcome(True, gone=(("Recovery", meta.key, meta.uid),))
    if reply.status == 409:
        fresh = yield Call("GET", path)
        if fresh.ok:
            return failed(reply, f"recovery {meta.key} is not the one that was to be removed", fresh.body)
    return failed(reply, f"removal of recovery {meta.key}")
