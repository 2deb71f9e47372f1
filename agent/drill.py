"""A drill on this node: readings with one injected fault go through detection of their own, beside the real one.

The real detection never sees an injection. So a real fault during a drill is neither masked nor taken for a part of it,
a drill counts in nobody's fault history, and forgetting the second detection is the whole way back.

The silent agent (`NW-AGENT-SILENT`) injects nothing: reports are kept back while they would say nothing new of the
chips. The first word of a real fault ends it, and so does the end of the process.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.commands import Refused
from agent.detect.chips import LOST_ERRORS
from agent.detect.codes import canonical, is_code
from agent.detect.detector import Detector
from agent.detect.readings import ChipEvent, ChipFinding, DriverReading, NodeFinding
from agent.detect.view import DetectView
from agent.feed import feed
from agent.probe import Observation
from shared.commands import DrillStart
from shared.model import NODE, Drill, Fault, FaultEvent, Instant, fault_id
from shared.names import CODE_AGENT_SILENT, CODE_CARD_LOST, CODE_MONITOR_BLIND

log = logging.getLogger(__name__)

_DRIVER_CODE = re.compile("[0-9A-F]{8,9}")
_LOST = min(LOST_ERRORS)
MAX_LOOKS = 10
"""Looks that a drill asks for beside the usual polls until its fault shows."""


class Running(msgspec.Struct, frozen=True):
    """A drill as it is kept in the state file. ends_mono: on the clock of `boot_id`; a reboot ends it."""

    order: DrillStart
    ends_at: float
    ends_mono: float
    boot_id: str


class DrillBench:
    """At most one drill at a time. Nothing here needs to be undone: what is not `running` is not there.

    fork: a copy of the real detection. poll: makes the chips be looked at soon. changed: there is something to report.
    """

    def __init__(
        self,
        fork: Callable[[Instant], Detector],
        *,
        boot_id: str,
        poll: Callable[[], None],
        changed: Callable[[], None],
        kept: Running | None = None,
    ) -> None:
        self._fork, self._boot_id, self._poll, self._changed = fork, boot_id, poll, changed
        lasts = kept is not None and kept.boot_id == boot_id != "" and kept.order.code != CODE_AGENT_SILENT
        self.running = kept if lasts else None
        self._last_words: Any = None
        self._copy: Detector | None = None
        self._shown: dict[str, Fault] = {}
        self._looks = 0

    def start(self, order: DrillStart, left_s: float, view: DetectView, now: Instant) -> str:
        """Begin, for `left_s` at most. Raises Refused. The one that runs already is no error."""
        self.expire(now)
        order = replace(order, code=canonical(order.code))
        target = fault_id(order.code, order.chip)
        if self.running is not None and self.running.order.drill == order.drill:
            return f"drill {order.drill} runs already"
        if self.running is not None:
            raise Refused(f"drill {order.drill}: drill {self.running.order.drill} runs on this node; stop it first")
        if not self._boot_id:
            raise Refused(f"drill {order.drill}: the boot id cannot be read, so its end would not be kept")
        known = [chip.phy for chip in view.chips]
        if order.chip != NODE and order.chip not in known:
            shown = ", ".join(map(str, known)) or "none"
            raise Refused(f"drill {order.drill}: no chip {order.chip}; the physical ids of this node are {shown}")
        if not is_code(order.code):
            raise Refused(f"drill {order.drill}: {order.code[:40]!r} is no fault code")
        if order.chip == NODE and _DRIVER_CODE.fullmatch(order.code):
            raise Refused(f"drill {order.drill}: {order.code} is a code of a chip; name the chip")
        if order.chip != NODE and order.code in (CODE_MONITOR_BLIND, CODE_AGENT_SILENT):
            raise Refused(f'drill {order.drill}: {order.code} is a fault of the node; its chip is "node"')
        if any(fault.id == target for fault in view.faults):
            raise Refused(f"drill {order.drill}: {target} is open already, and it is real")
        seconds = min(order.ttl_s, left_s)
        self.running = Running(order, now.wall + seconds, now.mono + seconds, self._boot_id)
        self._copy, self._looks, self._last_words = None, 0, None
        self._poll()
        self._changed()
        return f"drill {order.drill} shows {target} for {seconds:.0f} s, effect {order.effect}"

    def stop(self, drill: str) -> str:
        """Nothing is injected from now on."""
        if self.running is None or self.running.order.drill != drill:
            return f"drill {drill} does not run here"
        self.running = self._copy = None
        self._poll()
        self._changed()
        return f"drill {drill} has ended; the sensors show what is there"

    def expire(self, now: Instant) -> str | None:
        """The name of a drill whose time has just run out, by either clock."""
        if self.running is None or (now.mono < self.running.ends_mono and now.wall < self.running.ends_at):
            return None
        ended = self.running.order.drill
        self.running = self._copy = None
        return ended

    @property
    def wake_at(self) -> float | None:
        """Monotonic time at which there is something to do."""
        return None if self.running is None else self.running.ends_mono

    def see(self, seen: Observation, now: Instant) -> None:
        """One look at the chips; the copy sees it with the injection."""
        self.expire(now)
        if self.running is None or self.running.order.code == CODE_AGENT_SILENT:
            return
        if self._copy is None:
            self._copy = self._fork(now)
        order = self.running.order
        if self._looks == 0 and isinstance(order.chip, int) and _is_drivers(order.code):
            # the severity of a code that the catalogue does not know comes with its event alone
            self._copy.events((ChipEvent(order.chip, order.code, "occur", severity=order.severity),), now)
        self._looks += 1
        feed(self._copy, "drill", injected(seen, order), now)

    def shown(self, real: DetectView, now: Instant) -> tuple[DetectView, tuple[FaultEvent, ...], Drill | None]:
        """What is to be reported: the real view with the drill's fault beside the real ones, and what came or went."""
        self.expire(now)
        faults: dict[str, Fault] = {}
        if self.running is not None and self._copy is not None:
            order = self.running.order
            target = fault_id(order.code, order.chip)
            found = [fault for fault in self._copy.view(now).faults if fault.id == target]
            if found and all(fault.id != target for fault in real.faults):
                said = {"drill": order.drill, "effect": order.effect, "until": self.running.ends_at}
                faults[target] = replace(found[0], origin="drill", evidence={**found[0].evidence, **said})
        events = [FaultEvent("raised", name, now.wall) for name in faults.keys() - self._shown.keys()]
        gone = self._shown.keys() - faults.keys() - {fault.id for fault in real.faults}
        events += [FaultEvent("cleared", name, now.wall) for name in gone]
        self._shown = faults
        view = replace(real, faults=(*real.faults, *faults.values()))
        return view, tuple(events), self.drill

    def withholds(self, real: DetectView, now: Instant, *, news: bool) -> bool:
        """Whether this report is kept back: a drill in which the agent plays dead, and nothing real to tell.

        The first report of such a drill says that it runs, and goes out. After it every fault and every blind spot
        that comes or goes (`news`: events say so too) ends the drill and is told at once.
        """
        self.expire(now)
        if self.running is None or self.running.order.code != CODE_AGENT_SILENT:
            return False
        words = _words(real)
        if self._last_words is None:
            self._last_words = words
            return False
        if words == self._last_words and not news:
            return True
        log.warning("drill %s has ended before its time: there is something real to report", self.running.order.drill)
        self.running = None
        return False

    @property
    def withholding(self) -> bool:
        """Whether reports are being kept back."""
        return self.running is not None and self.running.order.code == CODE_AGENT_SILENT and bool(self._last_words)

    @property
    def wants_look(self) -> bool:
        """Whether the fault does not show yet: some need several polls in a row."""
        silent = self.running is not None and self.running.order.code == CODE_AGENT_SILENT
        return self.running is not None and not silent and not self._shown and self._looks < MAX_LOOKS

    @property
    def drill(self) -> Drill | None:
        """What runs, as it is reported."""
        if self.running is None:
            return None
        order = self.running.order
        return Drill(order.drill, fault_id(order.code, order.chip), order.effect, self.running.ends_at)


def _words(view: DetectView) -> tuple[Any, ...]:
    """What a report must not be late with."""
    faults = frozenset((fault.id, fault.level, fault.confirmed) for fault in view.faults)
    blind = frozenset((one.chip, one.probe) for one in view.unknown)
    return faults, blind, frozenset((chip.phy, chip.health) for chip in view.chips)


def _is_drivers(code: str) -> bool:
    """Whether it stands in the driver's code list; a lost card shows by its absence instead."""
    return code != CODE_CARD_LOST and _DRIVER_CODE.fullmatch(code) is not None


def injected(seen: Observation, order: DrillStart) -> Observation:
    """The same look, as it would have been with the fault. Pure."""
    reading = seen.driver or DriverReading()
    evidence = {"seen_by": "drill"}
    if order.chip == NODE:
        if order.code == CODE_MONITOR_BLIND:
            return Observation(driver=DriverReading(silent="drill: the driver does not answer", pci=reading.pci))
        return Observation(driver=reading, node=(NodeFinding(order.code, True, evidence=evidence),))
    if order.code == CODE_CARD_LOST:
        chips = tuple(
            replace(one, codes=None, health=None, error=_LOST) if one.chip.phy == order.chip else one
            for one in reading.chips
        )
    elif _is_drivers(order.code):
        chips = tuple(
            replace(one, codes=(*(one.codes or ()), order.code), health=max(one.health or 0, order.severity))
            if one.chip.phy == order.chip and one.error is None and not one.hung
            else one
            for one in reading.chips
        )
    else:
        return Observation(driver=reading, chips=(ChipFinding(order.chip, order.code, True, evidence),))
    return Observation(driver=replace(reading, chips=chips))
