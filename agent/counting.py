"""Counters that only rise: how much of each is new within a window, also over a restart of the agent. No clock.

What a counter had when it was first seen is history. One that is lower than before has begun anew (its device was
reset), and what it shows then is history too.
"""

from __future__ import annotations

import msgspec

from shared.model import Instant

PARTS = 100
"""A window is kept as so many parts, so that one that lasts days costs no more memory than one of minutes."""


class Kept(msgspec.Struct, frozen=True):
    """`rises`: by counter, when (monotonic) and by how much. `began`: since when all rises have been seen."""

    at: Instant
    began: float
    totals: dict[str, int]
    rises: dict[str, list[tuple[float, int]]]


class Rising:
    """`limit` or more within `window_s` seconds are a finding. Counters are told apart by any string.

    began: the monotonic time from which on nothing is missed. lasting: the counters outlive a reboot of the host.
    """

    def __init__(self, *, window_s: float, limit: int, began: float, lasting: bool = False) -> None:
        self._window_s, self._limit, self._began, self._lasting = window_s, limit, began, lasting
        self._totals: dict[str, int] = {}
        self._rises: dict[str, list[tuple[float, int]]] = {}

    def see(self, counter: str, total: int, mono: float) -> None:
        """What the counter shows now."""
        new = total - self._totals.get(counter, total)
        self._totals[counter] = total
        if new <= 0:
            return
        rises = self._rises.setdefault(counter, [])
        if rises and mono - rises[-1][0] < self._window_s / PARTS:
            at, before = rises.pop()
            rises.append((at, before + new))
        else:
            rises.append((mono, new))

    def judge(self, counter: str, now: float) -> bool | None:
        """None: not to be told yet, because not a whole window has been watched."""
        if self.within_window(counter, now) >= self._limit:
            return True
        return False if now - self._began >= self._window_s else None

    def within_window(self, counter: str, now: float) -> int:
        rises = [rise for rise in self._rises.get(counter, ()) if rise[0] > now - self._window_s]
        self._rises[counter] = rises
        return sum(new for _, new in rises)

    def memory(self, at: Instant) -> Kept:
        return Kept(at, self._began, self._totals, {name: rises for name, rises in self._rises.items() if rises})

    def recall(self, kept: Kept, at: Instant, *, same_boot: bool) -> None:
        """What an earlier process saw. Counters went on while nobody looked, so nothing was missed within a boot."""
        by = 0.0 if same_boot else at.mono - max(0.0, at.wall - kept.at.wall) - kept.at.mono
        self._rises = {name: [(mono + by, new) for mono, new in rises] for name, rises in kept.rises.items()}
        if same_boot or self._lasting:
            self._totals = dict(kept.totals)
            self._began = kept.began + by
