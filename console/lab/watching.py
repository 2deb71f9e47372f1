"""Waiting on the lab: for the cluster to be as wished, for the steps of an episode. Changes wake it, no clock does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from console.lab.cluster.journal import Change
from console.lab.cluster.store import Store
from console.lab.episode import Episode, Step
from shared.aio import running
from shared.names import EVENTS_STREAM
from shared.wire import WireError, decode_note

BLOCK_MS = 1000


class StepMissing(Exception):
    """Something that should have happened did not, in the time it had. The text names it."""


class EpisodeWatch:
    """Feeds an Episode from the store and from Redis, in seconds since `restart_clock`."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._news = asyncio.Event()
        self.restart_clock()

    def restart_clock(self) -> None:
        """The chip breaks now."""
        self._began, self._began_wall = time.monotonic(), time.time()

    def seconds(self) -> float:
        """Since the chip broke."""
        return time.monotonic() - self._began

    def notice(self, change: Change) -> None:
        """A write of the API server."""
        if self.episode.observe(change, self.seconds()):
            self._news.set()

    async def follow_reports(self, redis: Redis, position: bytes, fault_id: str) -> None:
        """Until a change note of the node raises the fault: agents write the report itself just before it."""
        while True:
            answer: Any = await redis.xread({EVENTS_STREAM: position}, block=BLOCK_MS)
            for _, entries in answer or ():
                position = entries[-1][0]
                for entry, fields in entries:
                    if _raises(fields.get(b"note", b""), self.episode.node, fault_id):
                        # Redis wrote the time into the entry's id; when this loop gets to read it says nothing.
                        self.episode.detected(int(entry.partition(b"-")[0]) / 1000 - self._began_wall)
                        self._news.set()
                        return

    async def until(self, step: Step, timeout_s: float, meaning: str) -> float:
        """When the step happened, in seconds since the chip broke. Raises StepMissing with what it would have meant."""
        try:
            async with asyncio.timeout(timeout_s):
                while step not in self.episode.at:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as exc:
            raise StepMissing(f"{step}: not within {timeout_s:g} s: {meaning}") from exc
        return self.episode.at[step]


@asynccontextmanager
async def watching(episode: Episode, store: Store, redis: Redis, fault_id: str) -> AsyncIterator[EpisodeWatch]:
    """Watch while the block runs, from this moment on."""
    watch = EpisodeWatch(episode)
    newest: Any = await redis.xrevrange(EVENTS_STREAM, count=1)
    position = newest[0][0] if newest else b"0-0"
    unlisten = store.listen(watch.notice)
    try:
        async with running(watch.follow_reports(redis, position, fault_id)):
            yield watch
    finally:
        unlisten()


async def until(store: Store, holds: Callable[[], bool], timeout_s: float, what: Callable[[], str]) -> None:
    """Return at the change that makes `holds` true. Raises StepMissing with `what`, asked at the end."""
    news = asyncio.Event()
    unlisten = store.listen(lambda change: news.set())
    try:
        async with asyncio.timeout(timeout_s):
            while not holds():
                news.clear()
                await news.wait()
    except TimeoutError as exc:
        raise StepMissing(f"{what()}; waited {timeout_s:g} s") from exc
    finally:
        unlisten()


def _raises(note: bytes, node: str, fault_id: str) -> bool:
    try:
        decoded = decode_note(note)
    except WireError:
        return False
    return decoded.node == node and any(e.kind == "raised" and e.id == fault_id for e in decoded.events)
