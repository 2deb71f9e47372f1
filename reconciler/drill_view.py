"""What the HTTP API shows of drills: each with its state, and of a shadow drill what it would have caused."""

from __future__ import annotations

import msgspec

from reconciler.core.actions import Isolate, OpenRecovery
from reconciler.core.drills import DrillRow, as_if_real, rows, shadow
from reconciler.core.plan import plan
from reconciler.core.state import State
from shared.model import Instant


def drills(state: State, now: Instant) -> list[DrillRow]:
    """By name. `would` is of the plan that the same state would give, were shadow drills real."""
    found = rows(state, now)
    if not any(shadow(fault) for heard in state.heard.values() for fault in heard.report.faults):
        return found
    would = _would(state, now)
    return [
        msgspec.structs.replace(row, would=would) if row.state == "running" and row.effect == "shadow" else row
        for row in found
    ]


def _would(state: State, now: Instant) -> list[str]:
    before, after = plan(state, now), plan(as_if_real(state), now)
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
