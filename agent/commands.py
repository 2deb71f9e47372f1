"""Commands of the reconciler: each is carried out once, in order, before it expires; whatever is wrong with one is
counted, said once and never fatal."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from agent.command_stream import StreamAway
from agent.disk import DiskHangs
from agent.metrics import Metrics
from agent.store import MAX_BEGUN
from shared.aio import Ticks
from shared.commands import BadCommand, Body, Command, Peers, decode_command

log = logging.getLogger(__name__)

LOOP = "commands"
LATE_S = 60.0
POLL_S = 2.0
BACKOFF_MAX_S = 15.0
ACTION_TIMEOUT_S = 10.0
KEPT_ENTRIES = 2000
SAY_EVERY_S = 60.0


class Refused(Exception):
    """A command that this agent cannot carry out; the text says why."""


Action = Callable[[Any, float], Awaitable[str]]
"""Given the body of a command and for how many seconds it holds; the answer says for the log what was done. May raise
Refused."""


class Source(Protocol):
    async def new(self) -> list[tuple[str, bytes]]: ...


class Ledger(Protocol):
    async def begin(self, command: str, until: float, now: float) -> bool: ...


class Commands:
    """Owned by one task that runs `run`.

    ledger: remembers over restarts what was begun. It is asked before an action: a crash in between loses the command
    rather than doing it twice, and the reconciler asks again for what is still missing. A peer list is a statement and
    no deed: every process takes it anew.
    """

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        actions: Mapping[type[Body], Action],
        *,
        node: str,
        metrics: Metrics,
        ticks: Ticks,
        poll_s: float = POLL_S,
    ) -> None:
        self._source, self._ledger, self._actions = source, ledger, actions
        self._node, self._metrics, self._ticks, self._poll_s = node, metrics, ticks, poll_s
        self._entries: dict[str, None] = {}
        self._begun: dict[str, float] = {}
        self._said: dict[str, float] = {}
        self._away = False

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        pause_s = self._poll_s
        while True:
            pause_s = self._poll_s if await self.look() else min(2 * pause_s, BACKOFF_MAX_S)
            self._ticks.tick(LOOP)
            await asyncio.sleep(pause_s * random.uniform(0.9, 1.1))

    async def look(self) -> bool:
        """Take what is new. False: Redis is away."""
        try:
            entries = await self._source.new()
        except StreamAway as exc:
            if not self._away:
                log.warning("commands cannot be read from Redis (%s); this node is watched all the same", exc)
            self._away = True
            return False
        if self._away:
            log.info("commands can be read again")
            self._away = False
        for number, raw in entries:
            if number not in self._entries:
                self._entries[number] = None
                await self._take(number, raw)
                self._ticks.tick(LOOP)
        while len(self._entries) > KEPT_ENTRIES:
            del self._entries[next(iter(self._entries))]
        return True

    async def _take(self, number: str, raw: bytes) -> None:
        try:
            command = decode_command(raw, node=self._node)
        except BadCommand as exc:
            self._count("none", exc.reason)
            self._say(exc.reason, f"entry {number} of the command stream is not used ({exc.reason}): {exc}")
            return
        now = time.time()
        if command.expires_at <= now:
            self._count(command.kind, "expired")
            late_s = now - command.expires_at
            self._say("expired", f"command {command.id} is not carried out: it expired {late_s:.0f} s ago")
            return
        if not await self._first(command, now):
            self._count(command.kind, "repeated")
            return
        await self._carry_out(command, left_s=command.expires_at - now)

    async def _first(self, command: Command, now: float) -> bool:
        if isinstance(command.body, Peers):
            return True
        self._begun = {name: until for name, until in self._begun.items() if until > now}
        if command.id in self._begun:
            return False
        self._begun[command.id] = command.expires_at
        while len(self._begun) > MAX_BEGUN:
            del self._begun[next(iter(self._begun))]
        try:
            return await self._ledger.begin(command.id, command.expires_at, now)
        except DiskHangs as exc:
            log.error("command %s: %s; carried out all the same, a restart may repeat it", command.id, exc)
            return True

    async def _carry_out(self, command: Command, *, left_s: float) -> None:
        try:
            async with asyncio.timeout(ACTION_TIMEOUT_S):
                done = await self._actions[type(command.body)](command.body, left_s)
        except Refused as exc:
            self._count(command.kind, "refused")
            log.warning("command %s is refused: %s", command.id, exc)
        except TimeoutError:
            self._count(command.kind, "failed")
            log.error("command %s has not ended within %g s; it is not tried again", command.id, ACTION_TIMEOUT_S)
        except Exception:
            self._count(command.kind, "failed")
            log.exception("command %s: a bug stopped it; it is not tried again", command.id)
        else:
            self._count(command.kind, "done")
            level = logging.DEBUG if isinstance(command.body, Peers) else logging.INFO
            log.log(level, "command %s: %s", command.id, done)

    def _count(self, kind: str, result: str) -> None:
        self._metrics.commands.labels(kind, result).inc()

    def _say(self, reason: str, text: str) -> None:
        """A stream full of nonsense is one line a minute."""
        at = time.monotonic()
        if at - self._said.get(reason, -SAY_EVERY_S) >= SAY_EVERY_S:
            self._said[reason] = at
            log.warning("%s", text)
