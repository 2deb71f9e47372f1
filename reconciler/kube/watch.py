"""One list+watch cache feed per resource: a consistent list, then changes, resumed where it broke off.

The world is the cache; this keeps it fed and knows how fresh it is. Objects are passed on as the bytes that came.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from reconciler.core.resources import RECOVERY, Resource
from reconciler.kube.client import KubeClient, KubeError
from reconciler.metrics import Metrics
from shared.aio import Ticks

log = logging.getLogger(__name__)

PAGE = 500
WATCH_S = (38.0, 45.0)
"""How long a watch lasts. Its end, and the bookmark 2 s before, are signs of life; none may be older than 60 s."""
MISSING_RECHECK_S = 60.0
REQUIRED_RECHECK_S = 5.0
BACKOFF_S = (0.2, 30.0)
BRIEF_S = 1.0
"""A watch that ended sooner and brought nothing counts as failed, so that a broken proxy is not asked in a hot loop."""
LATE_S = 180.0


class Sink(Protocol):
    """Where the objects go. None of these may raise."""

    def replace(self, kind: str, raws: Sequence[bytes]) -> None: ...

    def observe(self, kind: str, change: str, raw: bytes) -> None: ...

    def missing(self, kind: str) -> None: ...


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: _ListMeta


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


_pages = msgspec.json.Decoder(_Page)
_events = msgspec.json.Decoder(_Event)
_versions = msgspec.json.Decoder(_Versioned)
_statuses = msgspec.json.Decoder(_Status)


class _Broken(Exception):
    """The stream cannot be used any further; 410 = the version is too old, so list again."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class ResourceWatch:
    """The feed of one resource. Owned by one task that runs `run`."""

    def __init__(self, client: KubeClient, resource: Resource, sink: Sink, metrics: Metrics, ticks: Ticks) -> None:
        self.resource = resource
        self._client, self._sink, self._metrics, self._ticks = client, sink, metrics, ticks
        self._path = resource.collection(resource.namespace)
        only = {"fieldSelector": resource.name and f"metadata.name={resource.name}", "labelSelector": resource.label}
        self._params = tuple((key, value) for key, value in only.items() if value)
        self._version: str | None = None
        self._alive_at = time.monotonic()
        self._failures = 0
        self._complaint = ""
        self.listed = False
        """The world has held this kind whole at least once."""
        self.absent = False
        """The API server does not serve the kind."""

    @property
    def name(self) -> str:
        """Of its own for each row: several watch one collection, and none may tick for another."""
        only = self.resource.name or self.resource.label
        return f"watch {self.resource.plural}" + (f" {only}" if only else "")

    @property
    def synced(self) -> bool:
        """The world knows this kind, or knows that it does not exist here."""
        return self.listed or (self.absent and self.resource.optional)

    def age_s(self) -> float:
        """Seconds since the last sign of life: list, event, bookmark, or a watch that was accepted."""
        return time.monotonic() - self._alive_at

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(self.name, within_s=LATE_S)
        while True:
            self._ticks.tick(self.name)
            try:
                if self._version is None:
                    await self._list()
                await self._follow(self._version or "")
                continue
            except KubeError as exc:
                pause_s = self._refused(exc.status, str(exc))
            except (_Broken, msgspec.MsgspecError) as exc:
                pause_s = self._refused(exc.code if isinstance(exc, _Broken) else 0, str(exc))
            await asyncio.sleep(pause_s)

    async def _list(self) -> None:
        raws: list[bytes] = []
        token = ""
        while True:
            params = (*self._params, ("limit", str(PAGE)), *((("continue", token),) if token else ()))
            page = _pages.decode(await self._client.get_bytes(self._path, params))
            raws.extend(bytes(item) for item in page.items or ())
            token = page.metadata.continue_
            if not token:
                break
        self._metrics.relists.labels(self.resource.kind).inc()
        self._sink.replace(self.resource.kind, raws)
        self._version = page.metadata.resource_version
        if self.absent or not self.listed:
            log.info("%s: %d objects listed", self.resource.plural, len(raws))
        self.listed, self.absent = True, False
        self._alive()

    async def _follow(self, version: str) -> None:
        """One watch, until the server ends it. Raises KubeError and _Broken."""
        query = (*self._params, ("resourceVersion", version), ("allowWatchBookmarks", "true"))
        started, count = time.monotonic(), 0
        async with self._client.watch(self._path, query, timeout_s=random.uniform(*WATCH_S)) as lines:
            self._alive()
            async for line in lines:
                self._take(line)
                count += 1
        if not count and time.monotonic() - started < BRIEF_S:
            raise _Broken("the watch ended at once")
        self._settled()

    def _take(self, line: bytes) -> None:
        event = _events.decode(line)
        if event.type == "ERROR":
            status = _statuses.decode(event.object)
            raise _Broken(f"{status.code}: {status.message}", status.code)
        self._version = _versions.decode(event.object).metadata.resource_version
        self._alive()
        self._settled()
        if event.type != "BOOKMARK":
            self._metrics.watch_events.labels(self.resource.kind).inc()
            self._sink.observe(self.resource.kind, "gone" if event.type == "DELETED" else "set", bytes(event.object))

    def _alive(self) -> None:
        self._alive_at = time.monotonic()
        self._ticks.tick(self.name)

    def _settled(self) -> None:
        self._failures = 0
        if self._complaint:
            log.info("%s: readable again", self.name)
            self._complaint = ""

    def _refused(self, status: int, text: str) -> float:
        """What an error means for the next round, and how long to wait for it."""
        self._failures += 1
        if status == 404:
            return self._not_served()
        if status == 410:
            self._version = None
            if self._failures == 1:
                return 0.0  # a normal end: etcd has compacted what was missed
        self._complain(f"{text}; tried again, decisions go on with what is known")
        ceiling = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(self._failures, 10))
        return random.uniform(ceiling / 2, ceiling)

    def _not_served(self) -> float:
        self._version = None
        if not self.absent:
            self.absent, self.listed = True, False
            self._sink.missing(self.resource.kind)
        self._alive()
        if self.resource.optional:
            if not self._complaint:
                log.info("%s are not served here; looked for again every minute", self._qualified)
                self._complaint = "absent"
            return MISSING_RECHECK_S
        remedy = " Remedy: kubectl apply -f deploy/crd.yaml." if self.resource == RECOVERY else ""
        self._complain(f"the API server serves no {self._qualified}.{remedy} Nothing is decided until it does")
        return REQUIRED_RECHECK_S

    @property
    def _qualified(self) -> str:
        return f"{self.resource.plural}.{self.resource.group}".rstrip(".")

    def _complain(self, text: str) -> None:
        """A lasting trouble is said once, not at every attempt."""
        if text != self._complaint:
            log.warning("%s: %s", self.name, text)
            self._complaint = text
