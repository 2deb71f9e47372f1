"""Reports from Redis: each node's key is the truth, the stream only says which key to read now.

First the stream's position, then all keys, then the stream; all keys again every 15 s. The sweep goes in chunks
between the reads of the stream, so that an urgent report waits for one chunk at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec
from redis.exceptions import RedisError

from reconciler.allowance import EVERY_S, Allowance
from reconciler.metrics import Metrics
from shared import wire
from shared.aio import Ticks
from shared.model import NodeReport
from shared.names import EVENTS_STREAM, report_key
from shared.redis_client import connect
from shared.redis_url import RedisSettings

log = logging.getLogger(__name__)

LOOP = "inbox"
LATE_S = 60.0
CHUNK = 200
BATCH = 1000
BLOCK_MS = 1000
ANSWER_TIMEOUT_S = 4.0
AWAY_AFTER_S = 5.0
BACKOFF_S = (0.2, 5.0)
KEPT_BAD = 100
SAY_EVERY_S = 60.0
SHOWN_BYTES = 300


class BadMessage(msgspec.Struct, frozen=True):
    """A message that was not used, kept for the person who looks for it. `raw`: its beginning."""

    source: str
    node: str | None
    reason: str
    message: str
    at: float
    raw: str


class Inbox:
    """nodes: names of the nodes known now. accept: takes a report, or says in a word why not; neither may raise.

    Owned by one task that runs `run`, for as long as this replica leads.
    """

    def __init__(
        self,
        config: RedisSettings,
        nodes: Callable[[], Collection[str]],
        accept: Callable[[NodeReport], str | None],
        metrics: Metrics,
        ticks: Ticks,
        *,
        sweep_s: float = 15.0,
    ) -> None:
        self._config, self._nodes, self._accept = config, nodes, accept
        self._metrics, self._ticks, self._sweep_s = metrics, ticks, sweep_s
        self.tried = asyncio.Event()
        """The first sweep is through, or has failed."""
        self.bad: OrderedDict[str, BadMessage] = OrderedDict()
        self._digests: dict[str, int] = {}
        self._said: dict[str, float] = {}
        self._allowance = Allowance()
        self._chunks: deque[list[str]] = deque()
        self._next_sweep = 0.0
        self._swept = False
        self._failures = 0
        self._alive_at = 0.0

    @property
    def ok(self) -> bool:
        """Whether reports can be read: Redis answers, and every known key has been read since it does."""
        return self._swept and time.monotonic() - self._alive_at <= AWAY_AFTER_S

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            async with contextlib.aclosing(connect(self._config, timeout_s=ANSWER_TIMEOUT_S)) as client:
                while True:
                    try:
                        await self._session(client)
                    except (RedisError, OSError, TimeoutError) as exc:
                        self._away(exc)
                    self._ticks.tick(LOOP)
                    ceiling = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(self._failures - 1, 10))
                    await asyncio.sleep(random.uniform(ceiling / 2, ceiling))
        finally:
            self._ticks.forget(LOOP)
            self._metrics.redis_up.set(0)

    async def _session(self, client: Any) -> None:
        """From connecting to the first error."""
        newest = await _answer(client.xrevrange(EVENTS_STREAM, count=1))
        position: bytes = newest[0][0] if newest else b"0-0"
        self._begin_sweep()
        while True:
            self._ticks.tick(LOOP)
            block_ms = None if self._chunks else BLOCK_MS
            answer = await _answer(client.xread({EVENTS_STREAM: position}, count=BATCH, block=block_ms))
            self._alive_at = time.monotonic()
            for _, entries in answer or ():
                position = entries[-1][0]
                await self._read(client, [node for node in self._named(entries) if self._may_read(node)])
            if late := self._allowance.due(time.monotonic()):
                await self._read(client, late)
            if self._chunks:
                await self._read(client, self._chunks.popleft())
                if not self._chunks:
                    self._end_sweep()
            elif time.monotonic() >= self._next_sweep:
                self._begin_sweep()

    def _begin_sweep(self) -> None:
        known = list(self._nodes())
        for node in self._digests.keys() - set(known):
            del self._digests[node]
        self._allowance.keep(set(known), time.monotonic())
        self._chunks = deque(known[i : i + CHUNK] for i in range(0, len(known), CHUNK))
        self._next_sweep = time.monotonic() + self._sweep_s
        if not known:
            self._end_sweep()

    def _end_sweep(self) -> None:
        """All keys are read: what is known of the reports is now as good as it gets."""
        if not self._swept:
            self._alive_at = time.monotonic()
            log.info("Redis %s: the reports of %d nodes are read", self._config.shown, len(self._digests))
        self._swept, self._failures = True, 0
        self._metrics.redis_up.set(1)
        self.tried.set()

    def _away(self, exc: BaseException) -> None:
        """One broken connection is nothing yet; a second failure, or 5 s, is an outage."""
        self._failures += 1
        self.tried.set()
        if self._failures == 1 and self._swept and time.monotonic() - self._alive_at < AWAY_AFTER_S:
            return
        if self._swept or self._failures == 1:
            log.warning(
                "Redis %s: %s. Silence of a node means nothing until it is back; Kubernetes is still watched",
                self._config.shown,
                " ".join(str(exc).split()).rstrip(".") or f"no answer within {ANSWER_TIMEOUT_S:g} s",
            )
        self._swept = False
        self._metrics.redis_up.set(0)

    def _named(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> list[str]:
        """The known nodes that these entries of the stream name, each once. A lie costs one read of a true key."""
        known, named = self._nodes(), dict[str, None]()
        for entry, fields in entries:
            raw = fields.get(b"note", b"")
            try:
                node = wire.decode_note(raw).node
            except wire.WireError as exc:
                self._keep_aside(EVENTS_STREAM, None, "bad-note", f"entry {entry.decode()}: {exc}", raw)
                continue
            if node in known:
                named[node] = None
            else:
                self._metrics.rejected.labels("unknown-node").inc()
        return list(named)

    def _may_read(self, node: str) -> bool:
        """Whether the stream's word is followed at once; an agent that says too much is read at its own pace."""
        if self._allowance.take(node, time.monotonic()):
            return True
        what = f"its agent announces more than a change every {EVERY_S:g} s: its report is read no oftener"
        self._keep_aside(f"{EVENTS_STREAM} {node}", node, "flooding", what, b"")
        return False

    async def _read(self, client: Any, nodes: list[str]) -> None:
        for start in range(0, len(nodes), CHUNK):
            chunk = nodes[start : start + CHUNK]
            values = await _answer(client.mget([report_key(node) for node in chunk]))
            for node, raw in zip(chunk, values, strict=True):
                if raw is not None:
                    self._take(node, raw)

    def _take(self, node: str, raw: bytes) -> None:
        digest = hash(raw)
        if self._digests.get(node) == digest:
            return  # nothing new; a bad message is counted once, not at every sweep
        self._digests[node] = digest
        try:
            report = wire.decode_report(raw, node=node)
        except wire.WireError as exc:
            self._keep_aside(report_key(node), node, _reason(str(exc)), str(exc), raw)
            return
        why_not = self._accept(report)
        if why_not is not None:
            self._keep_aside(report_key(node), node, why_not, "an older statement of this node", raw)
            return
        self._metrics.reports.inc()

    def _keep_aside(self, source: str, node: str | None, reason: str, message: str, raw: bytes) -> None:
        self._metrics.rejected.labels(reason).inc()
        self.bad.pop(source, None)
        self.bad[source] = BadMessage(
            source, node, reason, message, time.time(), raw[:SHOWN_BYTES].decode(errors="replace")
        )
        while len(self.bad) > KEPT_BAD:
            self.bad.popitem(last=False)
        # A fleet that speaks another schema is one line a minute, not one line a node.
        if time.monotonic() - self._said.get(reason, -SAY_EVERY_S) >= SAY_EVERY_S:
            self._said[reason] = time.monotonic()
            log.warning("%s: not used (%s): %s. The node's last good report stays in force", source, reason, message)


async def _answer(command: Awaitable[Any]) -> Any:
    """The answer to one command, or TimeoutError."""
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        return await command


def _reason(text: str) -> str:
    """A metric label of few values from the text of a WireError."""
    if text.startswith("node:"):
        return "wrong-node"
    if text.startswith("v:"):
        return "schema"
    return "too-big" if " bytes, more than " in text else "malformed"
