"""The store behind a thread of its own: a disk that hangs must not stop the watch, nor keep the agent from ending."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from agent.metrics import Metrics
from agent.store import MAX_UNSAVED, Store

log = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE_S = 1.0
Job = tuple[Future[Any], Callable[[], Any]]


class DiskHangs(Exception):
    """The state file has not answered in time; what was asked is done when the disk comes back."""


class Disk:
    """Store calls in order, each waited for `PATIENCE_S` at most."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._saving: asyncio.Future[None] | None = None
        self._memory = b""
        self._notes: deque[bytes] = deque(maxlen=MAX_UNSAVED)
        self._behind = False
        """Something has come up since the save that is under way began."""
        # a daemon, unlike the threads of an executor, is not waited for when the process ends
        threading.Thread(target=self._work, name="state", daemon=True).start()

    @property
    def problem(self) -> str | None:
        return self._store.problem

    async def save(self, memory: bytes, notes: Sequence[bytes]) -> None:
        """Returns when it is saved, or when waiting is over: a report is not held back by a disk."""
        self._memory = memory
        self._notes.extend(notes)
        try:
            await self._save_newest()
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

    async def begin(self, command: str, until: float, now: float) -> bool:
        """See Store.begin. Raises DiskHangs."""
        return await self._do(lambda: self._store.begin(command, until, now))

    async def close(self) -> None:
        try:
            if self._notes:
                await self._save_newest()
            await self._do(self._store.close)
        except DiskHangs as exc:
            log.error("%s; ending without it", exc)
        self._jobs.put(None)

    async def _save_newest(self) -> None:
        """One save is under way at most; what comes up while it hangs goes with the next, so that nothing piles up."""
        if self._saving is not None and not self._saving.done():
            self._behind = True
            await self._in_time(self._saving)  # its end starts the next
        saving = self._saving if self._saving is not None and not self._saving.done() else self._start_save()
        await self._in_time(saving)

    def _start_save(self) -> asyncio.Future[None]:
        memory, notes = self._memory, tuple(self._notes)
        self._notes.clear()
        self._behind = False
        self._saving = self._submit(lambda: self._save(memory, notes))
        self._saving.add_done_callback(self._catch_up)
        return self._saving

    def _catch_up(self, done: asyncio.Future[None]) -> None:
        """At once: the next report, which would save it too, may be a heartbeat away."""
        if self._behind and not done.cancelled():
            self._start_save()

    def _save(self, memory: bytes, notes: Sequence[bytes]) -> None:
        self._store.save(memory, notes)
        self._metrics.outbox_notes.set(self._store.count())

    async def _do(self, work: Callable[[], T]) -> T:
        return await self._in_time(self._submit(work))

    def _submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: Future[T] = Future()
        self._jobs.put((future, work))
        return asyncio.wrap_future(future)

    async def _in_time(self, future: asyncio.Future[T]) -> T:
        done, _ = await asyncio.wait([future], timeout=PATIENCE_S)
        if not done:
            raise DiskHangs(f"the state file did not answer within {PATIENCE_S:g} s")
        return future.result()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            try:
                future.set_result(work())
            except Exception as exc:  # noqa: BLE001  # told to whoever waits
                future.set_exception(exc)
