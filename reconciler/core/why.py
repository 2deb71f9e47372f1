"""Why a unit or a node is as it is: present refusals, and what its recoveries have come to."""

from __future__ import annotations

from collections import defaultdict

from reconciler.core.actions import Hold, Plan
from reconciler.core.state import State


def verdicts(state: State, plan: Plan) -> dict[str, list[Hold]]:
    """Refusals by subject (unit id or node name); a recovery that ended or waits adds the reason it states."""
    found: dict[str, list[Hold]] = defaultdict(list)
    for hold in plan.holds:
        found[hold.subject].append(hold)
    for recovery in state.recoveries.values():
        status = recovery.status
        if status.reason:
            found[recovery.spec.unit].append(Hold(recovery.spec.unit, status.reason, status.message))
    return found
