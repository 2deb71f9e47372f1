"""Reports to Redis: the newest first, then the changes missed so far. The only place of the agent that knows Redis.

`report:<node>` is the truth and is set before anything else; `events` is history, appended from the outbox and taken
out of it only after Redis has answered. So an outage of any length costs nothing but time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Protocol

import redis.asyncio as aioredis
from redis.exceptions import ReadOnlyError, RedisError

from agent.disk import DiskHangs
from agent.metrics import Metrics
from shared.names import EVENTS_STREAM, report_key

log = logging.getLogger(__name__)

EXPIRY_S = 3600
STREAM_MAXLEN = 100_000
BATCH = 200
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0


class Outbox(Protocol):
    """Change notes that Redis does not have yet, oldest first."""

    async def pending(self, limit: int) -> Sequence[tuple[int, bytes]]: ...
    async def forget(self, upto: int) -> None: ...


class Publisher:
    """`offer` a report; `run` sends the newest and empties the outbox, for ever. Nothing is queued but the outbox.

    timeout_s: how long Redis may take for one report, or one batch of notes.
    """

    def __init__(
        self, client: aioredis.Redis, *, node: str, outbox: Outbox, metrics: Metrics, timeout_s: float
    ) -> None:
        self._client, self._key, self._timeout_s = client, report_key(node), timeout_s
        self._outbox, self._metrics = outbox, metrics
        self._newest: bytes | None = None
        self._asked_at: float | None = None
        self._wake = asyncio.Event()
        self.problem: str | None = "nothing sent yet"

    def offer(self, report: bytes, *, since: float | None = None) -> None:
        """The newest report, before its note is in the outbox; `wake` has both sent. One that was offered before and
        not sent is history now. `since`: monotonic time of the driver event behind it, for the latency metric."""
        self._newest = report
        self._asked_at = since
        self._metrics.report_bytes.set(len(report))

    def wake(self) -> None:
        """Report and note are ready to be sent."""
        self._wake.set()

    async def run(self) -> None:
        pause_s = RETRY_FIRST_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self.send():
                pause_s = RETRY_FIRST_S
                continue
            self._wake.set()
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def send(self) -> bool:
        """One attempt: the newest report, then all notes. False when Redis did not take everything."""
        try:
            sent = await self._send_report()
            while notes := await self._outbox.pending(BATCH):
                if self._newest is not sent:  # a note never overtakes its report: who hears of one reads the other
                    sent = await self._send_report()
                async with self._client.pipeline(transaction=False) as pipe:
                    for _, note in notes:
                        pipe.xadd(EVENTS_STREAM, {"note": note}, maxlen=STREAM_MAXLEN, approximate=True)
                    async with asyncio.timeout(self._timeout_s):
                        await pipe.execute()
                await self._outbox.forget(notes[-1][0])
        except (RedisError, OSError, TimeoutError, DiskHangs) as exc:
            self._failed(exc)
            if isinstance(exc, ReadOnlyError):  # after a failover this connection is still to the old master
                await self._client.connection_pool.disconnect()
            return False
        if self.problem is not None:
            log.info("reports reach Redis")
            self.problem = None
        return True

    async def _send_report(self) -> bytes | None:
        report, since = self._newest, self._asked_at
        if report is None:
            return None
        async with asyncio.timeout(self._timeout_s):
            await self._client.set(self._key, report, ex=EXPIRY_S)
        self._metrics.reports.labels("sent").inc()
        if since is not None:
            self._metrics.report_seconds.observe(time.monotonic() - since)
        self._asked_at = None
        return report

    async def close(self) -> None:
        await self._client.aclose()

    def _failed(self, exc: Exception) -> None:
        silent = isinstance(exc, TimeoutError) and not str(exc)
        why = f"{type(exc).__name__}: {f'no answer within {self._timeout_s:g} s' if silent else exc}"
        self._metrics.reports.labels("failed").inc()
        if self.problem != why:
            log.warning("Redis does not take reports (%s); changes are kept in the outbox, retrying", why)
        self.problem = why
