"""Who gets which table: one subscriber for each jobID, the newest table for each, and no queue between them.

A subscriber that reads slowly is skipped over: what it is given next is what is right then. Nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


class Subscription:
    """One stream. `next` until it says None: a newer subscriber of the same jobID has taken its place."""

    def __init__(self, hub: Hub, job_id: str) -> None:
        self.job_id = job_id
        self._hub = hub
        self._news = asyncio.Event()
        self._sent = ""
        self._over = False

    async def next(self) -> str | None:
        """The table, as soon as it is another one than this stream has had."""
        while not self._over:
            self._news.clear()
            text = self._hub.tables.get(self.job_id, "")
            if text and text != self._sent:
                self._sent = text
                return text
            await self._news.wait()
        return None

    def wake(self, *, over: bool = False) -> None:
        self._over = self._over or over
        self._news.set()


class Hub:
    """`tables`: by jobID what is right and published. `wanted`: whether there is anything to serve here at all, None =
    nothing was decided yet."""

    def __init__(self) -> None:
        self.tables: Mapping[str, str] = {}
        self.wanted: bool | None = None
        self.changed = asyncio.Event()
        self._subscriptions: dict[str, Subscription] = {}

    def take(self, tables: Mapping[str, str], *, wanted: bool) -> None:
        """After each plan. A table that is not right any more is told to nobody new; those who have it keep it."""
        if wanted != self.wanted:
            self.wanted = wanted
            self.changed.set()
        if tables == self.tables:
            return
        self.tables = tables
        for subscription in self._subscriptions.values():
            subscription.wake()

    def subscribe(self, job_id: str) -> Subscription:
        """The newer one wins: the MS Controller that has just become the active one is the one to tell."""
        self.preempt(job_id)
        self._subscriptions[job_id] = Subscription(self, job_id)
        return self._subscriptions[job_id]

    def preempt(self, job_id: str) -> None:
        if (held := self._subscriptions.pop(job_id, None)) is not None:
            held.wake(over=True)

    def leave(self, subscription: Subscription) -> None:
        """Its stream has ended."""
        if self._subscriptions.get(subscription.job_id) is subscription:
            del self._subscriptions[subscription.job_id]

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def unheard(self) -> int:
        """Tables that are right and published, and that nobody has subscribed to: their controllers know nothing."""
        return len(self.tables.keys() - self._subscriptions.keys())
