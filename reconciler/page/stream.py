"""`/v1/stream`: the page's tables by server-sent events, the whole at first and then what changes.

One loop makes the frames, while anybody watches; each viewer is told what has changed since the last frame *it* was
given. So a slow one gets fewer and larger pieces, nothing queues up for it, and one that takes nothing is dropped.
Source of the format: WHATWG HTML, 9.2 Server-sent events.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import web

from reconciler import views
from reconciler.core.actions import Plan
from reconciler.core.state import State
from reconciler.metrics import Metrics
from reconciler.page.delta import Delta, Frame, Table, delta
from reconciler.page.frame import Framer, recoveries
from shared import aio
from shared.aio import Ticks
from shared.openapi import STREAM
from shared.web import problem

LOOP = "page"
LATE_S = 60.0
PERIOD_S = 0.5
REST = 3.0
"""However long frames take, three quarters of the time are left for decisions."""
SWEEP_S = 5.0
ALIVE_S = 5.0
SLOW_S = 10.0
LIFE_S = 3600.0
"""A stream ends by itself and the page asks for the next one: nobody is served by mistake for ever."""
EXPECTED_S = 5.0
MAX_VIEWERS = 32


class Source(Protocol):
    """What the stream asks of its replica."""

    metrics: Metrics
    ticks: Ticks
    holder: str

    def newest(self) -> tuple[State, Plan] | None: ...

    def watched(self) -> State: ...

    def leader(self) -> str: ...

    def policy_error(self) -> str | None: ...


class Standby(msgspec.Struct, frozen=True):
    """Instead of a frame, on a replica that hears no agent. leader: "" while nobody leads. recoveries: as the API
    server has them, so that what is under way can be followed while nobody leads."""

    holder: str
    leader: str
    recoveries: Table


class Alive(msgspec.Struct, frozen=True):
    """Nothing has changed. as_of: Unix time of the newest state that was looked at."""

    as_of: float


class Told(msgspec.Struct, frozen=True):
    """Data of `whole` and `change`."""

    as_of: float
    holder: str
    delta: Delta


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    number: int
    what: Frame | Standby
    as_of: float


class Stream:
    """The loop and its viewers. `running` goes into the application's cleanup_ctx, `handle` answers the route."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._framer = Framer()
        self._shown: _Shown | None = None
        self._seen: tuple[State, Plan] | None = None
        self._looked_at, self._swept = 0.0, 0.0
        self._numbers = itertools.count(1)
        self._viewers: dict[int, web.Request] = {}
        self._expected_until = 0.0
        self._arrived, self._news = asyncio.Event(), asyncio.Event()
        self._pieces: dict[tuple[int, int], bytes] = {}
        self._ending = False

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """The loop, from the start of the application to its end."""
        app.on_shutdown.append(self._end)
        self._source.ticks.expect(LOOP, within_s=LATE_S)
        try:
            async with aio.running(aio.periodic(self._round, period_s=0.0, ticks=self._source.ticks, name=LOOP)):
                yield
        finally:
            self._source.ticks.forget(LOOP)

    def expect(self) -> None:
        """Somebody opens the page: the first frame is made while the browser still reads the files."""
        self._expected_until = time.monotonic() + EXPECTED_S
        self._arrived.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        # Who has closed the page is found out at the next piece; until then it takes nobody's place.
        if sum(viewer.transport is not None for viewer in self._viewers.values()) >= MAX_VIEWERS:
            self._source.metrics.page_dropped.labels("full").inc()
            return problem(503, "Too many viewers", f"{MAX_VIEWERS} pages are open on this replica; close one")
        response = web.StreamResponse(headers={"Content-Type": STREAM, "Cache-Control": "no-store"})
        await response.prepare(request)
        if request.method != "HEAD":
            with self._watched(request):
                await self._tell(request, response)
        return response

    @contextlib.contextmanager
    def _watched(self, request: web.Request) -> Iterator[None]:
        self._viewers[id(request)] = request
        self._source.metrics.page_viewers.set(len(self._viewers))
        self._arrived.set()
        try:
            yield
        finally:
            del self._viewers[id(request)]
            self._source.metrics.page_viewers.set(len(self._viewers))

    async def _tell(self, request: web.Request, response: web.StreamResponse) -> None:
        """All that comes to be known, until the viewer goes, is too slow, or the stream's time is over."""
        told: _Shown | None = None
        ends = time.monotonic() + LIFE_S
        while not self._ending and time.monotonic() < ends:
            newer = await self._newer(told)
            piece = self._alive() if newer is None else self._piece(told, newer)
            try:
                async with asyncio.timeout(SLOW_S):
                    await response.write(piece)
            except ConnectionResetError:
                return
            except TimeoutError:
                self._source.metrics.page_dropped.labels("slow").inc()
                if request.transport is not None:
                    request.transport.abort()
                return
            told = newer or told

    async def _newer(self, told: _Shown | None) -> _Shown | None:
        """What is shown, once it is not `told` any more; None when nothing has changed for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_S):
                while not self._ending and (self._shown is None or self._shown is told):
                    await self._news.wait()
        return None if self._shown is told else self._shown

    async def _round(self) -> None:
        """Wait a little, less for a first viewer, and look whether there is something new to show."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PERIOD_S):
                await self._arrived.wait()
        self._arrived.clear()
        if not self._viewers and time.monotonic() > self._expected_until:
            self._forget()
            return
        newest = self._source.newest()
        if newest is None:
            self._seen = None
            rows = recoveries(self._source.watched())
            self._show(Standby(self._source.holder, self._source.leader(), rows), time.time())
        elif self._seen is None or newest[0] is not self._seen[0]:
            began = time.monotonic()
            await self._frame(*newest)
            took_s = time.monotonic() - began
            self._source.metrics.page_frame_seconds.observe(took_s)
            await asyncio.sleep(REST * took_s)

    async def _frame(self, state: State, plan: Plan) -> None:
        now = aio.now()
        seen = self._seen
        full = seen is None or seen[0].policy is not state.policy or now.mono - self._swept > SWEEP_S
        warden = views.warden(state, self._source.leader(), self._source.policy_error())
        # A second of work in a large cluster: in a thread, as the plan is.
        made = await asyncio.to_thread(self._framer.frame, state, plan, warden, now, full=full)
        self._seen = state, plan
        self._swept = now.mono if full else self._swept
        self._show(made, now.wall)

    def _show(self, what: Frame | Standby, as_of: float) -> None:
        self._looked_at = as_of
        if self._shown is None or self._shown.what != what:
            self._shown = _Shown(next(self._numbers), what, as_of)
            self._pieces.clear()
            self._news.set()
            self._news = asyncio.Event()

    def _forget(self) -> None:
        """Nobody watches: a frame of 10,000 nodes need not be kept."""
        if self._shown is not None:
            self._shown = self._seen = None
            self._framer = Framer()
            self._pieces.clear()

    def _piece(self, told: _Shown | None, newer: _Shown) -> bytes:
        """One event. Viewers that are at the same point share its bytes."""
        key = told.number if told is not None else 0, newer.number
        if key not in self._pieces:
            self._pieces[key] = self._encoded(told, newer)
        return self._pieces[key]

    def _encoded(self, told: _Shown | None, newer: _Shown) -> bytes:
        if isinstance(newer.what, Standby):
            return _event("standby", newer.what)
        before = told.what if told is not None and isinstance(told.what, Frame) else None
        name = "whole" if before is None else "change"
        return _event(name, Told(newer.as_of, self._source.holder, delta(before, newer.what)))

    def _alive(self) -> bytes:
        return _event("alive", Alive(self._looked_at))

    async def _end(self, _app: web.Application) -> None:
        self._ending = True
        self._news.set()


def _event(name: str, data: msgspec.Struct) -> bytes:
    """JSON has no line break in it, so it is one line of data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
