"""How long Recoveries are kept: the newest `KEPT` finished ones of each unit; older ones are removed, oldest first.

What was counted does not fall with them. Every Recovery says what its unit had before it (`spec.history`), so the
oldest one that is left speaks for all that are gone, and a removal is one write that can be interrupted anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from reconciler.core.actions import Prune
from reconciler.core.recovery import Recovery
from reconciler.core.retries import age
from reconciler.core.state import State

KEPT = 20
AT_ONCE = 10
"""Removals in one plan, of as many units: the next plan goes on."""


def plan_retention(state: State) -> Iterator[Prune]:
    """One removal for each of a few units that have too many.

    One, the oldest: an Escalated recovery must never outlive the one that followed it, or it would be followed again.
    """
    groups: dict[tuple[str, str], list[Recovery]] = defaultdict(list)
    for recovery in state.recoveries.values():
        if not recovery.open:
            groups[_group(state, recovery)].append(recovery)
    crowded = [group for _, group in sorted(groups.items()) if len(group) > KEPT]
    for group in crowded[:AT_ONCE]:
        yield Prune(min(group, key=age))


def _group(state: State, recovery: Recovery) -> tuple[str, str]:
    """What is kept together: the unit, or pods of drawn names that share one count.

    Instances that are gone for good (a rollout draws new names) are kept together as one: nobody restarts them again.
    """
    spec = recovery.spec
    controller = spec.controller
    if controller is not None and controller.kind in state.kinds and controller.uid not in state.owners:
        return spec.workload.uid, ""
    return spec.workload.uid, spec.history.of or spec.unit
