"""What the HTTP API shows of drills: each with its state, what it would cause, and what is held because of it."""

from __future__ import annotations

from dataclasses import replace as changed

import msgspec

from reconciler.core.actions import Isolate, OpenRecovery, Plan, WriteLedger
from reconciler.core.drill_orders import DrillRow, rows
from reconciler.core.drills import SILENCE, as_if_real, request_of, shadow, silencing
from reconciler.core.isolation import SILENCE_IS_NOT_DEATH
from reconciler.core.judge import silent_since
from reconciler.core.objects import Condition, Pod
from reconciler.core.plan import plan
from reconciler.core.state import State
from shared.model import NODE, Instant, fault_id
from shared.names import CODE_POD_FAILED, CODE_REDIS_DOWN, DRILL_CONDITION

_REDIS = fault_id(CODE_REDIS_DOWN, NODE)
_NO_LEDGER = (
    "the ledger of retries (volcano-system/vcjob-fault-npu-cm) is not up to date: a failed pod could end its job"
)


def drills(state: State, now: Instant) -> list[DrillRow]:
    """By name. `would` is of the plan that the same state would give, were shadow drills real and the pods Failed."""
    found = [msgspec.structs.replace(row, held=_held(state, row, now)) for row in rows(state, now)]
    supposed = as_if_real(state)
    pods = {pod.metadata.key: _failed(pod, row.name) for row in found if (pod := _to_fail(state, row)) is not None}
    if pods:
        supposed = changed(supposed, pods={**state.pods, **pods})
    elif not any(shadow(fault) for heard in state.heard.values() for fault in heard.report.faults):
        return found
    before, after = plan(state, now), plan(supposed, now)
    would = _would(before, after)
    no_ledger = any(isinstance(action, WriteLedger) for action in before.actions)
    return [_told(row, would, ends=_to_fail(state, row) is not None, no_ledger=no_ledger) for row in found]


def _told(row: DrillRow, would: list[str], *, ends: bool, no_ledger: bool) -> DrillRow:
    """The row of a drill, with what it would cause. ends: it is about to end a pod."""
    if ends and no_ledger and row.effect == "real":
        return msgspec.structs.replace(row, state="refused", why=_NO_LEDGER)
    if row.state == "running" and (row.effect == "shadow" or ends):
        return msgspec.structs.replace(row, would=would)
    return row


def _held(state: State, row: DrillRow, now: Instant) -> str:
    """What a drill that must change nothing has come to, so far."""
    if row.state != "running":
        return ""
    heard = state.heard.get(row.node)
    if row.fault == SILENCE and silencing(state, row.node, now) is not None:
        silent = state.reports_ok and now.mono > silent_since(state, heard)
        return SILENCE_IS_NOT_DEATH if silent else ""
    if row.fault == _REDIS:
        return "no report can be read: nothing new is decided from silence, what is known stays as it is"
    return ""


def _to_fail(state: State, row: DrillRow) -> Pod | None:
    """The pod that a drill is about to end."""
    if row.state != "running" or row.node not in state.nodes:
        return None
    request = request_of(state.nodes[row.node])
    if request is None or isinstance(request, str) or request.code != CODE_POD_FAILED or request.name != row.name:
        return None
    pod = state.pods.get(request.pod)
    return pod if pod is not None and pod.metadata.uid == request.uid and not pod.failed else None


def _failed(pod: Pod, drill: str) -> Pod:
    mark = Condition(type=DRILL_CONDITION, status="True", message=drill)
    kept = tuple(one for one in pod.status.conditions or () if one.type != "Ready")
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, phase="Failed", conditions=(*kept, mark))
    )


def _would(before: Plan, after: Plan) -> list[str]:
    known = {action.key for action in before.actions}
    texts: list[str] = []
    for action in after.actions:
        if action.key in known:
            continue
        if isinstance(action, Isolate):
            texts.append(f"taint {action.node.metadata.name} {action.want.value}:{action.want.effect}")
        elif isinstance(action, OpenRecovery):
            texts.append(f"restart {action.spec.unit} ({action.spec.size} pods, {action.spec.method})")
    refused = {(hold.subject, hold.reason) for hold in before.holds}
    texts += [
        f"leave {hold.subject} ({hold.reason}: {hold.message})"
        for hold in after.holds
        if (hold.subject, hold.reason) not in refused
    ]
    return texts
