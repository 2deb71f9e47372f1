"""Loops with an owner: started in one TaskGroup, watched by ticks, ended by cancellation that is awaited."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from shared.model import Instant

log = logging.getLogger(__name__)


def now() -> Instant:
    """The two clocks, read together. Only loops call this; what decides is given the result."""
    return Instant(mono=time.monotonic(), wall=time.time())


class Ticks:
    """Liveness that means something: each loop says when it came round, and how late it may be.

    >>> ticks = Ticks(); ticks.expect("poll", within_s=30.0); ticks.late()
    []
    """

    def __init__(self) -> None:
        self._within: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def expect(self, loop: str, *, within_s: float) -> None:
        self._within[loop] = within_s
        self._last[loop] = time.monotonic()

    def tick(self, loop: str) -> None:
        self._last[loop] = time.monotonic()

    def forget(self, loop: str) -> None:
        self._within.pop(loop, None)

    def late(self) -> list[str]:
        """One line for each loop that has not come round in time."""
        at = time.monotonic()
        return [
            f"{loop}: no tick for {at - self._last[loop]:.0f} s (allowed {within:.0f} s)"
            for loop, within in self._within.items()
            if at - self._last[loop] > within
        ]


async def periodic(
    work: Callable[[], Awaitable[None]], *, period_s: float, jitter: float = 0.1, ticks: Ticks, name: str
) -> None:
    """Run `work` for ever, every `period_s` seconds (up to the jitter share less), its own duration included.

    An exception of `work` is logged and the loop goes on: one bad round must not end the watch. Cancellation ends it.
    """
    while True:
        started = time.monotonic()
        try:
            await work()
        except Exception:
            log.exception("%s: this round failed, the next comes in %.0f s", name, period_s)
        ticks.tick(name)
        pause = period_s * (1 + random.uniform(-jitter, 0)) - (time.monotonic() - started)
        await asyncio.sleep(max(0.0, pause))


@contextlib.asynccontextmanager
async def running(*coros: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """The given loops run while the block does; at its end they are cancelled and awaited."""
    tasks = [asyncio.create_task(coro) for coro in coros]
    try:
        yield tasks
    finally:
        await cancel(*tasks)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and wait; what a task raised while it ended is logged, not lost."""
    for task in tasks:
        task.cancel()
    for task, result in zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
            log.error("%s ended with an error", task.get_name(), exc_info=result)
