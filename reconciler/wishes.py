"""Tells of people's wishes: looks at the object that carries one, to see who wrote it, says it and notes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from reconciler.core.calls import Call, Reply
from reconciler.core.state import State
from reconciler.core.wishes import PAUSE, Wish, wish_event, wishes_of
from shared import aio
from shared.aio import Ticks

log = logging.getLogger(__name__)

LOOP = "wishes"
LATE_S = 60.0
READ_TIMEOUT_S = 5.0
LONGEST_S = 15.0
WAITING = 1000
"""Wishes that come faster than they can be looked at: beyond it they are only obeyed."""


class Sender(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...


class Wishes:
    """`planned` after each plan, one task runs `run` while this replica leads. note: given each Event, written or not.

    What stood before this replica led was told by the one before it; only a pause is told by each.
    """

    def __init__(self, client: Sender, say: Callable[[Call], None], note: Callable[[Call], None], ticks: Ticks) -> None:
        self._client, self._say, self._note, self._ticks = client, say, note, ticks
        self._silent = False
        self._known: dict[tuple[str, str], Wish] | None = None
        self._changed: asyncio.Queue[tuple[Wish, bool]] = asyncio.Queue(WAITING)

    def planned(self, state: State) -> None:
        """Never blocks. Under observe_only nothing is written to the cluster, not even this: it is only noted."""
        newest = wishes_of(state)
        before = {key: wish for key, wish in newest.items() if key[0] != PAUSE} if self._known is None else self._known
        self._known, self._silent = newest, state.policy.observe_only
        changes = [(wish, True) for key, wish in newest.items() if before.get(key) != wish]
        changes += [(wish, False) for key, wish in before.items() if key not in newest]
        for change in changes[: WAITING - self._changed.qsize()]:
            self._changed.put_nowait(change)

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            while True:
                self._ticks.tick(LOOP)
                try:
                    async with asyncio.timeout(LONGEST_S):
                        wish, stands = await self._changed.get()
                except TimeoutError:
                    continue
                await self._tell(wish, stands)
        finally:
            self._ticks.forget(LOOP)

    async def _tell(self, wish: Wish, stands: bool) -> None:
        reply = await self._client.send(Call("GET", wish.path), timeout_s=READ_TIMEOUT_S)
        if reply.status == 404 and not stands and wish.what != PAUSE:
            return  # the node is gone, and its wish with it
        told = wish_event(wish, reply.body if reply.ok else {}, stands=stands, now=aio.now())
        log.info("%s %s: %s", wish.what, wish.name, told.body["message"])
        self._note(told)
        if not self._silent:
            self._say(told)
