"""The driver's fault events, by a child that subscribes (dcmi_events.py); its end is answered by a new one.

Events give the speed, polling the truth: nothing is replayed, and what was lost meanwhile shows at the next poll.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.detect.readings import Assertion, ChipEvent
from agent.metrics import Metrics
from agent.sensors import dcmi_codes
from agent.sensors.child import Child
from agent.sensors.dcmi_events import ALIVE, FRAME_BYTES, MAPPING, STATUS

log = logging.getLogger(__name__)

SCRIPT = Path(__file__).with_name("dcmi_events.py")
STAGES = ("loading the library", "init", "subscribing")
RESTART_FIRST_S, RESTART_MAX_S = 1.0, 60.0
UNSUPPORTED_RETRY_S = 600.0
STEADY_S = 60.0
SILENT_S = 20.0
"""A subscribed child says every 2 s that it lives."""
UNSUPPORTED = frozenset({dcmi_codes.NOT_SUPPORTED, -8002, -99998})
"""Not that the library cannot be loaded: while a driver is being replaced there is none for a moment."""
ASSERTIONS: dict[int, Assertion] = {0: "recover", 1: "occur", 2: "once"}

_head = struct.Struct("=i4x")
_own = struct.Struct("=iii")
_dms = struct.Struct("=IHBBBBBBiiQ256s")
"""struct dcmi_dms_fault_event at offset 8: event_id, deviceid, node_type, node_id, sub_node_type, sub_node_id,
severity, assertion, event_serial_num, notify_serial_num, alarm_raised_time, event_name. The device's own time is left
out: it belongs to another clock."""


class Refused(Exception):
    """No subscription; `lasting` when the same driver will not change its mind."""

    def __init__(self, why: str, *, lasting: bool) -> None:
        super().__init__(why)
        self.lasting = lasting


class EventStream:
    """Runs the subscribing child for ever. `on_events` gets batches in order; `on_gap` is called whenever events may
    have been missed: a poll is due then."""

    def __init__(
        self,
        library: Path,
        *,
        on_events: Callable[[Sequence[ChipEvent]], None],
        on_gap: Callable[[], None],
        metrics: Metrics,
        init_timeout_s: float = 25.0,
    ) -> None:
        self.state = "starting"
        self._library, self._metrics = library, metrics
        self._on_events, self._on_gap = on_events, on_gap
        self._init_timeout_s = init_timeout_s
        self._phy_of: dict[int, int] = {}
        self._made_anew_for: dict[int, float] = {}
        self._child: Child | None = None
        self._survivor: Child | None = None

    @property
    def subscribed(self) -> bool:
        return self.state == "subscribed"

    def follow(self, phys: frozenset[int]) -> None:
        """The chips that are enumerated now: a subscription made before one of them came back cannot speak of it. One
        that the new subscription does not name either is left to polling for a while: the others need their events."""
        now, missing = time.monotonic(), phys - set(self._phy_of.values())
        tried = self._made_anew_for
        self._made_anew_for = {
            phy: at for phy, at in tried.items() if phy in missing and now - at < UNSUPPORTED_RETRY_S
        }
        back = missing - self._made_anew_for.keys()
        if self.subscribed and self._child is not None and back:
            log.info("chips %s have come back; the event subscription is made anew", ", ".join(map(str, sorted(back))))
            self._made_anew_for |= dict.fromkeys(back, now)
            self._child.kill()

    async def run(self) -> None:
        """For ever: one child after the other, with pauses that grow while none of them lasts."""
        loop = asyncio.get_running_loop()
        pause_s, told = RESTART_FIRST_S, ""
        while True:
            began = loop.time()
            lasting, why = False, "the event child ended"
            try:
                await self._one_child()
            except Refused as exc:
                lasting, why = exc.lasting, str(exc)
            except OSError as exc:
                why = f"the event child cannot be started: {exc}"
            finally:
                self._metrics.subscribed.set(0)
            if loop.time() - began > STEADY_S:
                pause_s = RESTART_FIRST_S
            wait_s = UNSUPPORTED_RETRY_S if lasting else pause_s
            level = logging.DEBUG if why == told else logging.WARNING
            log.log(level, "no driver events (%s); polling goes on, next try in %.0f s", why, wait_s)
            self.state, told = f"no events: {why}", why
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, RESTART_MAX_S)

    async def _one_child(self) -> None:
        """One child from start to end, after the one before is gone. Raises Refused, OSError."""
        await self._outlived()
        self._phy_of = {}
        child = await Child.start("event child", SCRIPT, self._library)
        self._metrics.children_started.labels("events").inc()
        self._child = child
        try:
            await self._until_subscribed(child)
            self.state = "subscribed"
            self._metrics.subscribed.set(1)
            log.info("subscribed to the driver's fault events for %d chips", len(self._phy_of))
            self._on_gap()
            await self._forward(child)
        finally:
            self._child = None
            if not await child.end():
                self._survivor = child
                self._metrics.children_abandoned.inc()

    async def _outlived(self) -> None:
        """Until a child that could not be killed has died, which may be never: each of them that hangs in the driver
        holds memory and a handle, so there is one at most."""
        if self._survivor is None:
            return
        why = f"the event child (pid {self._survivor.pid}) hangs in the driver and cannot be killed"
        log.error("%s; polling goes on, and no other is started before it is gone", why)
        self.state = f"no events: {why}"
        await self._survivor.gone()
        log.info("the event child (pid %d) is gone; the next is started", self._survivor.pid)
        self._survivor = None
        self._metrics.children_abandoned.dec()

    async def _until_subscribed(self, child: Child) -> None:
        try:
            async with asyncio.timeout(self._init_timeout_s):
                while True:
                    frame = await child.stdout.readexactly(FRAME_BYTES)
                    kind, first, second = _own.unpack_from(frame)
                    if kind == MAPPING:
                        self._phy_of[first] = second
                    elif kind == STATUS and first == dcmi_codes.OK:
                        return
                    elif kind == STATUS:
                        why = f"{STAGES[second]} answered {dcmi_codes.say(first)}"
                        raise Refused(why, lasting=first in UNSUPPORTED)
                    else:
                        self._deliver(frame)  # the driver may speak before the call that subscribes is back
        except TimeoutError:
            raise Refused(f"no subscription within {self._init_timeout_s:.0f} s", lasting=False) from None
        except asyncio.IncompleteReadError:
            raise Refused("the event child ended before it had subscribed", lasting=False) from None

    async def _forward(self, child: Child) -> None:
        """Until the child ends. Raises Refused when it says nothing any more."""
        rest = b""
        while True:
            try:
                async with asyncio.timeout(SILENT_S):
                    chunk = await child.stdout.read(64 * FRAME_BYTES)
            except TimeoutError:
                why = f"the event child (pid {child.pid}) has said nothing for {SILENT_S:.0f} s: stopped, or frozen"
                raise Refused(why, lasting=False) from None
            if not chunk:
                return
            rest += chunk
            whole = len(rest) - len(rest) % FRAME_BYTES
            self._deliver(rest[:whole])
            rest = rest[whole:]

    def _deliver(self, frames: bytes) -> None:
        events: list[ChipEvent] = []
        for offset in range(0, len(frames), FRAME_BYTES):
            if _head.unpack_from(frames, offset) == (ALIVE,):
                continue
            event = parse_event(frames[offset : offset + FRAME_BYTES], self._phy_of)
            if event is None:
                self._metrics.driver_events_dropped.inc()
                self._on_gap()
                continue
            self._metrics.driver_events.labels(event.assertion).inc()
            events.append(event)
        if events:
            self._on_events(events)


def parse_event(frame: bytes, phy_of: dict[int, int]) -> ChipEvent | None:
    """`struct dcmi_event` to a ChipEvent; None for another kind of event, or a chip that is not in the id map."""
    (kind,) = _head.unpack_from(frame)
    if kind != 0:
        return None
    code, logic, _nt, _ni, _st, _si, severity, assertion, _serial, notify, _time, name = _dms.unpack_from(frame, 8)
    phy = phy_of.get(logic)
    if phy is None or assertion not in ASSERTIONS:
        return None
    words = name.split(b"\0", 1)[0].decode("utf-8", "replace")
    return ChipEvent(phy, f"{code:08X}", ASSERTIONS[assertion], severity=severity, serial=notify, name=words)
