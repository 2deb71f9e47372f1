"""Sends the commands that the state asks for to the agents' streams in Redis, each id once, so many in a second.

A second door to Redis beside the inbox (docs/adr): what is written must not wait for what is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from reconciler.core.commanding import peer_lists, prompt
from reconciler.core.state import State
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks
from shared.commands import COMMAND_FIELD, Command, encode_command
from shared.model import Instant
from shared.names import commands_stream
from shared.redis_client import connect
from shared.redis_url import RedisSettings

log = logging.getLogger(__name__)

LOOP = "commander"
LATE_S = 60.0
EVERY_S = 1.0
LISTS_EVERY_S = 30.0
AT_ONCE = 200
"""Commands in a round: the peers of 10,000 nodes take a minute of their ten, and no round is long."""
STREAM_MAXLEN = 100
STREAM_EXPIRY_S = 86400
"""The stream of a node that is gone is gone a day later; no command lives as long."""
ANSWER_TIMEOUT_S = 4.0


class Commander:
    """state: the newest snapshot, None while there is none. Owned by one task that runs `run` while this replica
    leads; what an earlier leader has sent may be sent again, and the agent knows it by its id."""

    def __init__(
        self, config: RedisSettings, state: Callable[[], State | None], metrics: Metrics, ticks: Ticks
    ) -> None:
        self._config, self._state, self._metrics, self._ticks = config, state, metrics, ticks
        self._sent: dict[str, float] = {}
        """Ids, with the Unix time until which they are remembered: the command's own end."""
        self._lists: list[Command] = []
        """Lists of peers that wait for their round."""
        self._lists_at = 0.0
        self._away = False

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            async with contextlib.aclosing(connect(self._config, timeout_s=ANSWER_TIMEOUT_S)) as client:
                while True:
                    await self._round(client)
                    self._ticks.tick(LOOP)
                    await asyncio.sleep(EVERY_S)
        finally:
            self._ticks.forget(LOOP)

    async def _round(self, client: Any) -> None:
        """One look and what it asks for. A bug is said and tried again: it must not end the leader."""
        state, now = self._state(), aio.now()
        if state is None:
            return
        self._sent = {number: until for number, until in self._sent.items() if until > now.wall}
        try:
            commands = await self._wanted(state, now)
        except Exception:
            log.exception("no command could be derived; tried again in %.0f s", EVERY_S)
            return
        if commands:
            await self._send(client, commands)

    async def _wanted(self, state: State, now: Instant) -> list[Command]:
        self._lists = [command for command in self._lists if command.expires_at > now.wall]
        if not self._lists and now.mono >= self._lists_at:
            self._lists_at = now.mono + LISTS_EVERY_S
            # For 10,000 nodes it takes long enough to keep the lease and the reports waiting.
            self._lists = await asyncio.to_thread(list, peer_lists(state, now, frozenset(self._sent)))
        commands = list(itertools.islice(prompt(state, now, self._sent), AT_ONCE))
        room = AT_ONCE - len(commands)
        commands += self._lists[:room]
        return commands

    async def _send(self, client: Any, commands: Sequence[Command]) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S), client.pipeline(transaction=False) as pipe:
                for command in commands:
                    stream, fields = commands_stream(command.node), {COMMAND_FIELD: encode_command(command)}
                    pipe.xadd(stream, fields, maxlen=STREAM_MAXLEN, approximate=True)
                    pipe.expire(stream, STREAM_EXPIRY_S)
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as exc:
            self._metrics.commands.labels("any", "failed").inc(len(commands))
            if not self._away:
                log.warning(
                    "Redis %s takes no commands (%s); tried again every second, agents go on without",
                    self._config.shown,
                    str(exc) or f"no answer within {ANSWER_TIMEOUT_S:g} s",
                )
            self._away = True
            return
        self._away = False
        told = {command.id for command in commands}
        self._lists = [command for command in self._lists if command.id not in told]
        for command in commands:
            self._sent[command.id] = command.expires_at
            self._metrics.commands.labels(command.kind, "sent").inc()
            if command.kind != "peers":
                log.info("%s: asked for %s (%s)", command.node, command.kind, command.id)
        log.debug("%d commands sent in %.0f ms", len(commands), (time.monotonic() - started) * 1000)
