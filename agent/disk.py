"""The store behind a thread of its own: a disk that hangs must not stop the watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from agent.metrics import Metrics
from agent.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE_S = 1.0


class DiskHangs(Exception):
    """The state file has not answered in time; what was asked is done when the disk comes back."""


class Disk:
    """Store calls in order, each waited for `PATIENCE_S` at most."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")

    @property
    def problem(self) -> str | None:
        return self._store.problem

    async def save(self, memory: bytes, notes: Sequence[bytes]) -> None:
        """Returns when it is saved, or when waiting is over: a report is not held back by a disk."""
        try:
            await self._do(lambda: self._store.save(memory, notes))
        except DiskHangs as exc:
            log.error("%s; the report goes out before the state is saved", exc)
        if self._store.problem is not None:
            self._metrics.state_errors.inc()

    async def pending(self, limit: int) -> list[tuple[int, bytes]]:
        """Raises DiskHangs."""
        return await self._do(lambda: self._store.pending(limit))

    async def forget(self, upto: int) -> None:
        """Raises DiskHangs."""
        await self._do(lambda: self._store.forget(upto))
        self._metrics.outbox_notes.set(await self._do(self._store.count))

    async def close(self) -> None:
        try:
            await self._do(self._store.close)
        except DiskHangs as exc:
            log.error("%s; ending without it", exc)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _do(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[Any] = asyncio.get_running_loop().run_in_executor(self._thread, work)
        done, _ = await asyncio.wait([future], timeout=PATIENCE_S)
        if not done:
            raise DiskHangs(f"the state file did not answer within {PATIENCE_S:g} s")
        result: T = future.result()
        return result
