"""In which order a plan's actions are begun when there are more of them than can be carried out at once.

Taints, new Recoveries and what is under way (claims, deletes, releases) take turns, so that in a burst the first
restart does not wait for the last taint, nor the last taint for all restarts. What only tells (conditions, records)
comes last. The retry ledger does not only tell, and comes first: without its entry a failed pod ends its job.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest

from reconciler.core.actions import BOOKKEEPING, Action, Isolate, OpenRecovery, WriteLedger


def in_order(actions: Iterable[Action]) -> list[Action]:
    """All of them; those of one object stay in the plan's order as far as they are of one kind of urgency."""
    ledger: list[Action] = []
    going_on: list[Action] = []
    taints: list[Action] = []
    openings: list[Action] = []
    telling: list[Action] = []
    for action in actions:
        if isinstance(action, WriteLedger):
            ledger.append(action)
        elif isinstance(action, Isolate):
            taints.append(action)
        elif isinstance(action, OpenRecovery):
            openings.append(action)
        elif isinstance(action, BOOKKEEPING):
            telling.append(action)
        else:
            going_on.append(action)
    turns = (one for one in chain.from_iterable(zip_longest(taints, openings, going_on)) if one is not None)
    return [*ledger, *turns, *telling]
