"""Writes Kubernetes Events beside everything else: whoever says one goes on at once, and no failure reaches them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from reconciler.core.actions import Hold, Incident
from reconciler.core.calls import Call, Reply
from reconciler.core.event_book import EventBook, Key
from reconciler.core.incidents import incident_events
from reconciler.core.refusal_events import RECOVERY_HELD, held, refusal_events, told
from reconciler.core.state import State
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks
from shared.model import Instant

log = logging.getLogger(__name__)

LOOP = "announcer"
LATE_S = 60.0
WRITE_TIMEOUT_S = 5.0
LONGEST_S = 15.0


class Sender(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...


class Announcer:
    """`say` from anywhere on the loop, one task runs `run` while this replica leads.

    What has not been written when leadership ends is lost: the Recovery and the log have it too.
    """

    def __init__(self, client: Sender, metrics: Metrics, ticks: Ticks) -> None:
        self._client, self._metrics, self._ticks = client, metrics, ticks
        self._book = EventBook(aio.now())
        self._said = asyncio.Event()
        self._complaint = 0
        self._refused: set[tuple[str, str]] = set()
        self._held: set[tuple[str, str]] = set()
        self._incidents: dict[str, Incident] = {}

    def say(self, call: Call) -> None:
        """An Event as `events.event` makes it. Never blocks, never raises."""
        if not self._book.say(call, aio.now()):
            self._metrics.events.labels("dropped").inc()
        self._said.set()

    def refused(self, state: State, holds: Iterable[Hold], now: Instant) -> None:
        """The refusals of a plan made from this state: what was not refused a plan ago is said."""
        holds = tuple(holds)
        fresh, waiting = told(holds), held(state, holds)
        for call in refusal_events(state, [hold for key, hold in fresh.items() if key not in self._refused], now):
            self.say(call)
        begun = [hold for key, hold in waiting.items() if key not in self._held]
        for call in refusal_events(state, begun, now, reason=RECOVERY_HELD):
            self.say(call)
        self._refused, self._held = set(fresh), set(waiting)

    def incidents(self, state: State, open_now: Iterable[Incident], now: Instant) -> None:
        """The incidents of a plan: each is said when it begins, when more nodes join it, and when it is over."""
        newest = {one.id: one for one in open_now}
        known = {name: set(one.members) for name, one in self._incidents.items()}
        begun = [one for name, one in newest.items() if not known.get(name, set()).issuperset(one.members)]
        over = [one for name, one in self._incidents.items() if name not in newest]
        for call in incident_events(state, begun, over, now):
            self.say(call)
        self._incidents = newest

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            while True:
                self._ticks.tick(LOOP)
                self._said.clear()
                due = self._book.next(aio.now())
                if due is not None:
                    await self._write(*due)
                    continue
                wait_s = self._book.wait_s(aio.now())
                await self._news(LONGEST_S if wait_s is None else min(LONGEST_S, wait_s))
        finally:
            self._ticks.forget(LOOP)

    async def _write(self, key: Key, call: Call) -> None:
        reply = await self._client.send(call, timeout_s=WRITE_TIMEOUT_S)
        result = self._book.settle(key, call, reply, aio.now())
        self._metrics.events.labels(result).inc()
        if result == "written":
            self._complaint = 0
        elif reply.status != self._complaint and not (call.method == "PATCH" and reply.status == 404):
            self._complaint = reply.status  # a lasting trouble is said once
            remedy = " Remedy: kubectl apply -f deploy/rbac.yaml." if reply.status == 403 else ""
            log.warning("Kubernetes Event %s about %s: %s (%s).%s", key[2], key[1], reply.text, result, remedy)

    async def _news(self, wait_s: float) -> None:
        """Until something is said or something is due."""
        try:
            async with asyncio.timeout(wait_s):
                await self._said.wait()
        except TimeoutError:
            return
