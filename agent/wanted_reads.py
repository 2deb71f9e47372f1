"""Reads of the driver that detection asks for between two polls: of single chips, and of all when events were lost.

Apart from the reports: a chip that hangs while it is read holds up no news of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from agent.detect.detector import Detector
from agent.detect.readings import ChipReading
from shared.aio import cancel, now

POLL_PAUSE_S = 1.0
"""Between two polls that events ask for: a storm of events that name no chip must not become a storm of polls."""
READ_PAUSE_S = 0.1
"""Between two reads of one chip that events ask for: what a storm brings meanwhile is answered by one read."""


class WantedReads:
    """`run` never ends by itself. poll: one look at all chips. read: one chip now, None when nobody can be asked.
    changed: told that detection has had answers."""

    def __init__(
        self,
        detector: Detector,
        *,
        poll: Callable[[], Awaitable[None]],
        read: Callable[[int], Awaitable[ChipReading | None]],
        changed: Callable[[], None],
    ) -> None:
        self._detector, self._changed = detector, changed
        self._poll, self._read = poll, read
        self._poll_wanted, self._read_wanted = asyncio.Event(), asyncio.Event()

    def want_poll(self) -> None:
        self._poll_wanted.set()

    def want_reads(self) -> None:
        """Detection has something due."""
        self._read_wanted.set()

    @property
    def under_way(self) -> bool:
        return self._read_wanted.is_set()

    async def run(self) -> None:
        rest_until = 0.0
        read_at: dict[int, float] = {}
        while True:
            await _either(self._read_wanted, self._poll_wanted)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(rest_until):
                    await self._read_wanted.wait()
            if self._poll_wanted.is_set() and time.monotonic() >= rest_until:
                self._poll_wanted.clear()
                await self._poll()
                rest_until = time.monotonic() + POLL_PAUSE_S
            wanted = self._detector.due(now())
            rested = [due for due in wanted if time.monotonic() >= read_at.get(due.phy, 0.0) + READ_PAUSE_S]
            if wanted and not rested:
                await asyncio.sleep(READ_PAUSE_S)
                continue
            for due in rested:
                reading = await self._read(due.phy)
                if reading is None:
                    self._detector.reread(due.phy, None, now())
                else:
                    self._detector.reread(due.phy, reading.codes, now(), error=reading.error, health=reading.health)
                read_at[due.phy] = time.monotonic()
            self._read_wanted.clear()  # what has become due meanwhile is found by the report loop
            self._changed()


async def _either(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*waits)
