"""Posts notices to webhooks, signed, beside everything else: no decision waits for a receiver, however slow or dead.

A receiver has a queue and a task of its own, so that a hanging one holds up no other. What waits goes together in one
request, at most one a second; what is not taken is sent again until it is `EXPIRES_S` old. At least once: a receiver
knows by a notice's id what it has had already.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from reconciler.core.actions import Hold, Incident
from reconciler.core.notices import Notice, NoticeBook
from reconciler.core.policy import Webhooks
from reconciler.core.state import State
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks
from shared.model import Instant
from shared.version import VERSION

log = logging.getLogger(__name__)

LOOP = "webhooks"
LATE_S = 60.0
LONGEST_S = 15.0
REQUEST_TIMEOUT_S = 10.0
GAP_S = 1.0
"""Between two requests to one receiver; what comes up meanwhile goes into the next."""
BACKOFF_S = (1.0, 60.0)
EXPIRES_S = 3600.0
WAITING = 1000
"""Notices that wait for one receiver; a further one is dropped and counted."""
AT_ONCE = 100
"""Notices in one request."""
TIMESTAMP, SIGNATURE, DELIVERY = "X-NPUWarden-Timestamp", "X-NPUWarden-Signature", "X-NPUWarden-Delivery"


class Delivery(msgspec.Struct, frozen=True):
    """The body of a request. by: the replica that sends it. notices: the oldest first."""

    version: int
    by: str
    notices: Sequence[Notice]


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256 of timestamp, a full stop and body, in hex."""
    return f"sha256={hmac.new(secret, timestamp.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


class Webhook:
    """`planned` after every plan, one task runs `run` while this replica leads.

    settings: the policy's, read at every turn, so that a changed policy needs no restart.
    """

    def __init__(self, settings: Callable[[], Webhooks], holder: str, metrics: Metrics, ticks: Ticks) -> None:
        self._settings, self._holder, self._metrics, self._ticks = settings, holder, metrics, ticks
        self._book: NoticeBook | None = None
        self._receivers: dict[str, _Receiver] = {}
        self._woken = asyncio.Event()

    def planned(self, state: State, holds: Sequence[Hold], incidents: Sequence[Incident], now: Instant) -> None:
        """Queue what this plan and its state have that is new. Never blocks, never raises."""
        settings = self._settings()
        if not settings.urls:
            self._book = None  # switched on again, only what is young is told
            return
        self._book = self._book or NoticeBook()
        try:
            found = self._book.look(state, holds, incidents, now)
        except Exception:
            log.exception("no notices of this plan: a bug; what was decided is carried out")
            return
        notices = [one for one in found if one.event in settings.events]
        if not notices:
            return
        for url in settings.urls:
            self._receivers.setdefault(url, _Receiver(url, self._settings, self._holder, self._metrics)).take(notices)
        self._woken.set()

    async def run(self) -> None:
        """For ever; ends by cancellation only. What has not been taken then is said again by the next leader."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            # No cookies are kept, no proxy of the environment stands between, and nothing is followed elsewhere.
            async with aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
            ) as session:
                try:
                    while True:
                        self._ticks.tick(LOOP)
                        self._woken.clear()
                        await self._match(tasks, session)
                        await self._news()
                finally:
                    await aio.cancel(*tasks.values())
        finally:
            self._ticks.forget(LOOP)

    async def _match(self, tasks: dict[str, asyncio.Task[None]], session: aiohttp.ClientSession) -> None:
        """A task for each receiver of the policy; those that it names no more are ended."""
        wanted = self._settings().urls
        for url in [url for url in self._receivers if url not in wanted]:
            self._receivers.pop(url).drop()
            if url in tasks:
                await aio.cancel(tasks.pop(url))
        for url, receiver in self._receivers.items():
            if url not in tasks:
                tasks[url] = asyncio.create_task(receiver.run(session), name=f"webhook {receiver.host}")

    async def _news(self) -> None:
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._woken.wait()
        except TimeoutError:
            return


class _Receiver:
    """One URL: its queue, and what is known of its moods. host: the part of the URL that may be logged."""

    def __init__(self, url: str, settings: Callable[[], Webhooks], holder: str, metrics: Metrics) -> None:
        self._url, self._settings, self._holder, self._metrics = url, settings, holder, metrics
        self.host = urlsplit(url).hostname or "?"
        self._waiting: dict[str, tuple[Notice, float]] = {}
        self._news = asyncio.Event()
        self._failures = 0
        self._complaint = ""

    def take(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            if notice.id in self._waiting:
                continue
            if len(self._waiting) >= WAITING:
                self._count("dropped")
                continue
            self._waiting[notice.id] = (notice, time.monotonic())
        self._news.set()

    def drop(self) -> None:
        """The policy names it no more."""
        self._count("dropped", len(self._waiting))
        self._waiting.clear()

    async def run(self, session: aiohttp.ClientSession) -> None:
        while True:
            await self._news.wait()
            self._expire()
            batch = [notice for notice, _ in list(self._waiting.values())[:AT_ONCE]]
            if not batch:
                self._news.clear()
                continue
            try:
                result, said = await self._post(session, batch)
            except Exception:
                log.exception("webhook %s: a bug kept notices from being sent; they are tried again", self.host)
                result, said = "bug", "see the log"
            self._metrics.webhook_attempts.labels(result).inc()
            if result == "ok":
                for notice in batch:
                    self._waiting.pop(notice.id, None)
                self._count("delivered", len(batch))
                self._failures, self._complaint = 0, ""
                await asyncio.sleep(GAP_S)
            else:
                await asyncio.sleep(self._back_off(result, said))

    async def _post(self, session: aiohttp.ClientSession, batch: Sequence[Notice]) -> tuple[str, str]:
        """(ok | secret | refused | no-answer, what to say of it)."""
        path = self._settings().secret_file
        try:
            secret = (await asyncio.to_thread(Path(path).read_bytes)).strip()
        except OSError as exc:
            return "secret", f"{path}: {exc.strerror or exc}"
        if not secret:
            return "secret", f"{path} is empty"
        body = msgspec.json.encode(Delivery(1, self._holder, batch))
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"npu-warden/{VERSION}",
            TIMESTAMP: timestamp,
            SIGNATURE: signature(secret, timestamp, body),
            DELIVERY: hashlib.sha256("\n".join(notice.id for notice in batch).encode()).hexdigest()[:32],
        }
        try:
            async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                return ("ok", "") if 200 <= answer.status < 300 else ("refused", f"answers {answer.status}")
        except TimeoutError:
            return "no-answer", f"does not answer within {REQUEST_TIMEOUT_S:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            return "no-answer", f"{type(exc).__name__}: {exc}".replace(self._url, self.host)

    def _back_off(self, result: str, said: str) -> float:
        self._failures += 1
        ceiling = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(self._failures - 1, 10))
        if result != self._complaint:  # a lasting trouble is said once
            self._complaint = result
            log.warning(
                "webhook %s: %d notices not taken (%s): %s. They are sent again for %.0f min; decisions go on.",
                *(self.host, len(self._waiting), result, said, EXPIRES_S / 60),
            )
        return random.uniform(ceiling / 2, ceiling)

    def _expire(self) -> None:
        old = [key for key, (_, at) in self._waiting.items() if time.monotonic() - at > EXPIRES_S]
        for key in old:
            del self._waiting[key]
        if old:
            self._count("expired", len(old))
            log.error("webhook %s: %d notices could not be delivered within an hour: given up", self.host, len(old))

    def _count(self, outcome: str, notices: int = 1) -> None:
        self._metrics.webhook_notices.labels(outcome).inc(notices)
