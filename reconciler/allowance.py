"""How often one node's report is read at the stream's word: an agent that floods the stream costs the others nothing.

Pure: the caller brings the time (monotonic seconds). Nothing is lost by it, the newest report is read a little later.
"""

from __future__ import annotations

from collections.abc import Collection

BURST = 20
"""Reads at once: a node whose sixteen chips fail together, each with a change of its own."""
EVERY_S = 0.5
"""Afterwards one read in so many seconds."""


class Allowance:
    """A bucket of `BURST` reads for each node, filled again by one every `EVERY_S`."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}
        """By node: reads spent, as of when."""
        self._put_off: set[str] = set()

    def take(self, node: str, now: float) -> bool:
        """Whether the node may be read now; if not, `due` names it as soon as it may."""
        spent = self._spent_now(node, now)
        if spent > BURST - 1:
            self._put_off.add(node)
            return False
        self._put_off.discard(node)
        self._spent[node] = spent + 1, now
        return True

    def due(self, now: float) -> list[str]:
        """Nodes that were put off and whose turn has come; each has been given a read."""
        return [node for node in sorted(self._put_off) if self.take(node, now)]

    def keep(self, nodes: Collection[str], now: float) -> None:
        """Forget who is gone, and who has long been quiet."""
        self._put_off &= set(nodes)
        self._spent = {n: s for n, s in self._spent.items() if n in nodes and self._spent_now(n, now) > 0}

    def _spent_now(self, node: str, now: float) -> float:
        spent, at = self._spent.get(node, (0.0, now))
        return max(0.0, spent - (now - at) / EVERY_S)
