"""In which order a plan's actions are begun when there are more of them than can be carried out at once.

Taints, new Recoveries and what is under way (claims, deletes, releases) take turns, so that in a burst the first
restart does not wait for the last taint, nor the last taint for all restarts. A turn has `TAINTS` of the former for one
of each of the latter: a taint is two requests and keeps work off a broken node, a unit's deletes are ten or more. What
only tells (conditions, records) comes last. The retry ledger does not only tell, and comes first: without its entry a
failed pod ends its job.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest

from reconciler.core.actions import BOOKKEEPING, Action, Isolate, OpenRecovery, WriteLedger

TAINTS = 24


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
    batches = [taints[start : start + TAINTS] for start in range(0, len(taints), TAINTS)]
    singly = ([one] for one in openings), ([one] for one in going_on)
    turns: Iterable[tuple[list[Action], ...]] = zip_longest(batches, *singly, fillvalue=[])
    return [*ledger, *chain.from_iterable(chain.from_iterable(turns)), *telling]
