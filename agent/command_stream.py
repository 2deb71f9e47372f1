"""The door to this node's stream of commands in Redis. What they say is agent.commands' business."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio as aioredis
from redis.exceptions import RedisError

from shared.commands import COMMAND_FIELD
from shared.names import commands_stream

BEGINNING = "0-0"
BATCH = 500
"""More than the stream holds: it is trimmed to about 100."""


class StreamAway(Exception):
    """Redis does not answer. The text says why."""


class CommandStream:
    """Asked now and then instead of blocking: ten thousand agents need no second connection each for it.

    client: the publisher's; whoever made it closes it.
    """

    def __init__(self, client: aioredis.Redis, *, node: str, timeout_s: float) -> None:
        self.node = node
        self._client, self._key, self._timeout_s = client, commands_stream(node), timeout_s
        self._position: Any = BEGINNING

    async def new(self) -> list[tuple[str, bytes]]:
        """(id, bytes) of the entries since the last call, oldest first. Raises StreamAway, and then the next call
        begins anew: another master may lack what this one had. The caller knows what it has seen."""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer: Any = await self._client.xread({self._key: self._position}, count=BATCH)
            entries = [
                (number.decode("ascii"), bytes(fields.get(COMMAND_FIELD.encode(), b"")))
                for number, fields in (answer[0][1] if answer else ())
            ]
        except (RedisError, OSError, TimeoutError) as exc:
            self._position = BEGINNING
            raise StreamAway(str(exc) or f"no answer within {self._timeout_s:g} s") from exc
        except (TypeError, ValueError, LookupError, AttributeError) as exc:
            # Another server, a proxy, or a connection out of step: whatever comes next on it is not to be believed.
            self._position = BEGINNING
            await self._client.connection_pool.disconnect()
            raise StreamAway(f"its answer is no stream ({type(exc).__name__}: {exc})") from exc
        if entries:
            self._position = entries[-1][0]
        return entries
