"""What a leader's rounds hand on to each other, so that a round costs what has changed and not the whole fleet."""

from __future__ import annotations

from reconciler.core.ledger import Limits
from reconciler.core.quiet import Quiet
from reconciler.core.state import State
from reconciler.core.tables import Tables
from reconciler.core.units import Index


class Known:
    """Owned by one planner, for one term. An empty one is always right: it only makes the next round a full one."""

    def __init__(self) -> None:
        self.quiet, self.limits = Quiet(), Limits()
        self._tables = Tables()

    def follow(self, state: State) -> Index:
        """Look-ups over this snapshot, which is the next after the one of the last call."""
        self._tables.follow(state.pods, state.owners, state.groups)
        index = Index(state, self._tables)
        self.limits.follow(index, self._tables.touched)
        return index
