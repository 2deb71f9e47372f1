"""Who may run a tool next, where several calls at once are allowed but never two about the same thing.

How many at once is decided by Pace: as few as keep the promise of the ports, because nobody documents that this many
are safe. Field notes on `hccn_tool is busy` say only: run fewer at once and try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Hashable

import msgspec

LINKS_WITHIN_S = 5.0
"""All ports are to be asked for their link in so long, if that takes no more than MOST_AT_ONCE calls at once."""
MOST_AT_ONCE = 4
ALONE_S = 3600.0
"""So long after the tool has said that it is busy, calls are made one at a time."""
URGENT_IN_A_ROW = 3
"""Then another has its turn, if one waits: where looks at links last longer than their period, nothing else would
ever be asked."""
NEWEST_SHARE = 0.3
"""What the newest call counts in the typical time of one."""


class Pace:
    """How many calls may run at once. `call_s`: typical seconds of one, None before the first. Times are monotonic."""

    def __init__(self) -> None:
        self.call_s: float | None = None
        self._alone_until = 0.0

    def took(self, seconds: float) -> None:
        before = seconds if self.call_s is None else self.call_s
        self.call_s = before + NEWEST_SHARE * (seconds - before)

    def busy(self, now: float) -> None:
        """The tool did not bear what else was running."""
        self._alone_until = now + ALONE_S

    def width(self, ports: int, now: float) -> int:
        if self.call_s is None or now < self._alone_until:
            return 1
        return max(1, min(MOST_AT_ONCE, math.ceil(ports * self.call_s / LINKS_WITHIN_S)))


class _Waiter(msgspec.Struct, eq=False):
    keys: frozenset[Hashable]
    urgent: bool
    place: asyncio.Future[int]


class Turns:
    """Places 0, 1, ... for calls that run at once. Urgent ones first, but not for ever; the others as they came."""

    def __init__(self) -> None:
        self.width = 1
        self._running: dict[int, frozenset[Hashable]] = {}
        self._waiting: list[_Waiter] = []
        self._urgent_in_a_row = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @contextlib.asynccontextmanager
    async def take(self, *keys: Hashable, urgent: bool = False) -> AsyncIterator[int]:
        """A place while the block lasts. No two blocks that have a key in common run at the same time."""
        waiter = _Waiter(frozenset(keys), urgent, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._grant()
        try:
            place = await waiter.place
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.place.done() and not waiter.place.cancelled():  # granted in the moment of the cancellation
                self._release(waiter.place.result())
            raise
        try:
            yield place
        finally:
            self._release(place)

    def _release(self, place: int) -> None:
        del self._running[place]
        self._grant()

    def _grant(self) -> None:
        while len(self._running) < self.width and (waiter := self._next()) is not None:
            self._waiting.remove(waiter)
            self._urgent_in_a_row = self._urgent_in_a_row + 1 if waiter.urgent else 0
            place = next(n for n in range(len(self._running) + 1) if n not in self._running)
            self._running[place] = waiter.keys
            waiter.place.set_result(place)

    def _next(self) -> _Waiter | None:
        urgent_first = self._urgent_in_a_row < URGENT_IN_A_ROW
        for waiter in sorted(self._waiting, key=lambda one: one.urgent is not urgent_first):  # stable: as they came
            cancelled = waiter.place.done()  # and has not left the queue yet
            if not cancelled and not any(waiter.keys & keys for keys in self._running.values()):
                return waiter
        return None
