"""Which Events are written, and when: the same object and reason count in one Event, and nobody can flood the others.

Pure: what is said goes in with `say`, the next write comes out of `next`, its reply goes back with `settle`. Between
the two an Event that is said again only counts, so a slow API server is asked less and not more.
Source: core/v1 Event (count, firstTimestamp, lastTimestamp), the correlator of client-go's recorder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from reconciler.core.calls import MERGE_PATCH, Call, Reply
from shared.model import Instant

WINDOW_S = 600.0
"""Quiet for so long, and the next one of its kind is an Event of its own."""
OBJECT_BURST, OBJECT_EVERY_S = 10, 30.0
"""Writes about one object: so many at once, then one each so many seconds."""
BURST, PER_S = 100, 10.0
"""Writes about all objects together."""
MAX_SERIES = 5000
"""Kinds of Events remembered; what does not fit is not written. 5,000 are some 10 MB."""
BACKOFF_S = (1.0, 60.0)

Key = tuple[str, str, str, str]
"""(collection, object, reason, type)."""


@dataclass(slots=True)
class Bucket:
    """Tokens that come back with time. Monotonic seconds."""

    size: float
    per_s: float
    tokens: float
    at: float

    def wait_s(self, now: float) -> float:
        """Seconds until a token is there, 0 when there is one."""
        self.tokens = min(self.size, self.tokens + (now - self.at) * self.per_s)
        self.at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.per_s

    def take(self) -> None:
        self.tokens -= 1


@dataclass(slots=True)
class Series:
    """Everything said of one object for one reason: the newest body, how often, and whether an Event shows it."""

    body: dict[str, Any]
    name: str
    count: int
    last_at: float
    shown: int = 0
    """The count that the API server has, 0 = there is no Event yet."""


class EventBook:
    """What is to be said and what has been. Owned by one loop."""

    def __init__(self, now: Instant) -> None:
        self._series: dict[Key, Series] = {}
        self._pending: dict[Key, None] = {}
        self._objects: dict[str, Bucket] = {}
        self._all = Bucket(BURST, PER_S, BURST, now.mono)
        self._failures = 0
        self._paused_until = now.mono

    def say(self, call: Call, now: Instant) -> bool:
        """Take an Event as `events.event` makes it; False when there is no room for one more kind of it."""
        key = _key(call)
        series = self._series.get(key)
        if series is not None and series.shown == series.count and now.mono - series.last_at > WINDOW_S:
            series = None
        if series is None:
            if len(self._series) >= MAX_SERIES:
                self._forget(now.mono)
            if len(self._series) >= MAX_SERIES:
                return False
            digest = hashlib.sha256("/".join((*key, str(now.wall))).encode()).hexdigest()[:12]
            name = f"{call.body['involvedObject']['name'][:200]}.{digest}"
            self._series[key] = Series(call.body, name, 1, now.mono)
        else:
            series.body = {**call.body, "firstTimestamp": series.body["firstTimestamp"]}
            series.count += 1
            series.last_at = now.mono
        self._pending.setdefault(key)
        return True

    def next(self, now: Instant) -> tuple[Key, Call] | None:
        """The write that may be made now. Its tokens are taken: it is to be sent, and its reply settled."""
        if self.wait_s(now) != 0:
            return None
        for key in self._pending:
            bucket = self._bucket(key, now.mono)
            if bucket.wait_s(now.mono) == 0:
                bucket.take()
                self._all.take()
                return key, _write(key, self._series[key])
        return None

    def wait_s(self, now: Instant) -> float | None:
        """Seconds until `next` has something, 0 = now; None when nothing waits."""
        if not self._pending:
            return None
        soonest = min(self._bucket(key, now.mono).wait_s(now.mono) for key in self._pending)
        return max(soonest, self._all.wait_s(now.mono), self._paused_until - now.mono, 0.0)

    def settle(self, key: Key, call: Call, reply: Reply, now: Instant) -> str:
        """What the reply to a write of `next` means, in a word: written | again | refused."""
        series = self._series[key]
        if reply.ok or (call.method == "POST" and reply.status == 409):
            # A name that is taken is our own write of which no answer came.
            self._failures, series.shown = 0, call.body["count"]
            if series.shown == series.count:
                del self._pending[key]
            return "written"
        if call.method == "PATCH" and reply.status == 404:
            series.shown = 0  # the API server drops Events after an hour
            series.name = f"{series.name}x"
            return "again"
        if reply.status in (0, 401, 429) or reply.status >= 500:
            self._failures += 1
            self._paused_until = now.mono + min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** (self._failures - 1))
            return "again"
        del self._pending[key], self._series[key]
        return "refused"

    def _bucket(self, key: Key, now: float) -> Bucket:
        return self._objects.setdefault(key[1], Bucket(OBJECT_BURST, 1 / OBJECT_EVERY_S, OBJECT_BURST, now))

    def _forget(self, now: float) -> None:
        """What is long over; and the limits of objects that nobody speaks of."""
        for key in [key for key, s in self._series.items() if key not in self._pending and now - s.last_at > WINDOW_S]:
            del self._series[key]
        spoken_of = {key[1] for key in self._series}
        self._objects = {name: bucket for name, bucket in self._objects.items() if name in spoken_of}


def _key(call: Call) -> Key:
    body = call.body
    about = body["involvedObject"]
    origin = body["metadata"].get("labels", {}).values()  # a drill's is never counted with a real one's
    who = "/".join((about["kind"], about["namespace"], about["name"], about["uid"], *origin))
    return call.path, who, body["reason"], body["type"]


def _write(key: Key, series: Series) -> Call:
    """The Event's creation, or its new count."""
    if not series.shown:
        metadata = {**series.body["metadata"], "name": series.name}
        return Call("POST", key[0], {**series.body, "metadata": metadata, "count": series.count}, aside=True)
    newer = {field: series.body[field] for field in ("message", "lastTimestamp")}
    return Call("PATCH", f"{key[0]}/{series.name}", {**newer, "count": series.count}, MERGE_PATCH, aside=True)
