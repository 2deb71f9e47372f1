"""The driver, read through the DCMI child on duty: what is asked, and what the answers and their absence mean.

A chip that hangs or is not answered for says so in its reading; nothing here waits longer than its deadlines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Protocol

from agent.detect.readings import ChipReading, DriverReading
from agent.metrics import Metrics
from agent.sensors import dcmi_codes
from agent.sensors.dcmi_duty import Duty
from agent.sensors.gauges import Measured
from agent.sensors.worker import ChipFacts, Enumeration, Ref, WorkerGone, WorkerHung
from agent.sensors.worker_pool import Blind

log = logging.getLogger(__name__)

INIT_TIMEOUT_S = 20.0  # 16 s were seen with a dead management controller
CALL_TIMEOUT_S = 1.0
FAILURES_IN_A_POLL = 2
GAUGE_PAUSE_S = 3600.0
"""A gauge that hung is left alone so long: it must not cost the chip its health readings."""


class Bus(Protocol):
    """What the sensor needs of the PCI bus."""

    npus: frozenset[str] | None
    passed_through: frozenset[str]


class DcmiSensor:
    """Reads chips through one child at a time. `poll` and `read` never raise and never take longer than their
    deadlines; what could not be read says so in the reading."""

    name = "dcmi"

    def __init__(
        self,
        library: Path,
        *,
        bus: Bus,
        metrics: Metrics,
        init_timeout_s: float = INIT_TIMEOUT_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._bus = bus
        self._duty = Duty(library, metrics=metrics, init_timeout_s=init_timeout_s, call_timeout_s=call_timeout_s)
        self._lock = asyncio.Lock()
        self._gauge_pauses: dict[tuple[str, Ref], float] = {}

    @property
    def enumeration(self) -> Enumeration:
        """The chips that the child on duty has found."""
        return self._duty.enumeration

    def renew(self) -> None:
        """Enumerate anew at the next poll: the bus has changed, or a chip says that it has booted."""
        self._duty.renewal.ask()

    async def poll(self) -> DriverReading:
        """Health and codes of every chip."""
        async with self._lock:
            self._duty.try_hung_chip()
            try:
                fresh, readings = await self._read_all()
                self._duty.renewal.note(self._looks_stale(readings))
                if self._duty.worker is not None and not fresh and self._duty.renewal.due(time.monotonic()):
                    fresh, readings = await self._read_all()
            except Blind as exc:
                return DriverReading(silent=str(exc), pci=self._bus.npus, passed_through=self._bus.passed_through)
            except asyncio.CancelledError:
                self._duty.drop()  # its next line would be taken for the answer to another request
                raise
            for hung in self._duty.quarantine.chips:
                if hung.identity is not None:
                    readings[hung.identity.phy] = ChipReading(hung.identity, hung=True, why=hung.why)
            chips = tuple(readings[phy] for phy in sorted(readings))
            nameless = sum(hung.identity is None for hung in self._duty.quarantine.chips)
            gaps = self.enumeration.gaps + nameless
            bus = self._bus
            return DriverReading(chips, fresh=fresh, pci=bus.npus, gaps=gaps, passed_through=bus.passed_through)

    async def read(self, phy: int) -> ChipReading | None:
        """One chip now; None when the chip is not enumerated or nobody can be asked."""
        async with self._lock:
            chip = self.enumeration.chips.get(phy)
            if self._duty.worker is None or chip is None or chip.ref in self._duty.quarantine.refs:
                return None
            try:
                (reading,) = [answer async for answer in self._duty.worker.read([chip])]
            except WorkerHung as exc:
                self._duty.set_aside(chip, exc)
                return ChipReading(chip.identity, hung=True, why=str(exc))
            except WorkerGone as exc:
                log.warning("%s; the next poll starts another", exc)
                self._duty.drop()
                return None
            except asyncio.CancelledError:
                self._duty.drop()
                raise
            return reading

    async def measure(self, what: str) -> tuple[Measured, ...] | None:
        """Gauges of every chip that can be asked; None while there is nobody to ask. Chips that hang are left out."""
        async with self._lock:
            now = time.monotonic()
            asked: list[ChipFacts] = []
            measured: dict[int, Measured] = {}
            for chip in self.enumeration.chips.values():
                if self._gauge_pauses.get((what, chip.ref), 0.0) > now:
                    why = f"the driver hung when {what} was read; left alone"
                    measured[chip.identity.phy] = Measured(chip.identity, why=why)
                elif chip.ref not in self._duty.quarantine.refs:
                    asked.append(chip)
            if self._duty.worker is None:
                return None if self._duty.known else ()
            try:
                async for one in self._duty.worker.measure(what, asked):
                    measured[one.chip.phy] = one
            except (WorkerHung, WorkerGone) as exc:
                if isinstance(exc, WorkerHung) and exc.ref is not None:
                    self._gauge_pauses[what, exc.ref] = now + GAUGE_PAUSE_S
                log.error("%s; the next poll starts another DCMI child", exc)
                self._duty.drop()
                for chip in asked:
                    measured.setdefault(chip.identity.phy, Measured(chip.identity, why=str(exc)))
            except asyncio.CancelledError:
                self._duty.drop()
                raise
            return tuple(measured.values())

    async def close(self) -> None:
        """End every child, waiting at most a moment for each."""
        await self._duty.close()

    async def _read_all(self) -> tuple[bool, dict[int, ChipReading]]:
        """All enumerated chips, and whether they were enumerated for it. Raises Blind when no chip answers."""
        fresh = await self._duty.ensure()
        readings: dict[int, ChipReading] = {}
        failures, why = 0, ""
        ended_at: Ref | None = None
        while self._duty.worker is not None:
            left = [chip for phy, chip in sorted(self.enumeration.chips.items()) if phy not in readings]
            try:
                async for reading in self._duty.worker.read(left):
                    readings[reading.chip.phy] = reading
                break
            except WorkerHung as exc:
                why = str(exc)
                self._duty.set_aside(next((chip for chip in left if chip.ref == exc.ref), None), exc)
            except WorkerGone as exc:
                why = str(exc)
                if exc.ref is not None and exc.ref == ended_at:  # twice: a call about this chip is what ends it
                    self._duty.set_aside(next((chip for chip in left if chip.ref == exc.ref), None), exc)
                else:
                    log.warning("%s; another is started", exc)
                    self._duty.drop()
                ended_at = exc.ref
            failures += 1
            if failures >= FAILURES_IN_A_POLL:
                break
            try:
                await self._duty.replace()
            except Blind as exc:
                why = str(exc)
                break
            fresh = True
        if not readings and failures:
            # not a matter of single chips: all of them are asked again once the driver has had a pause
            self._duty.quarantine.hurry(time.monotonic())
            raise self._duty.give_up(f"the driver answers for no chip: {why}")
        for phy, chip in self.enumeration.chips.items():
            if phy not in readings and chip.ref not in self._duty.quarantine.refs:
                readings[phy] = ChipReading(chip.identity, why=f"not read in this poll: {why}")
        return fresh, readings

    def _looks_stale(self, readings: dict[int, ChipReading]) -> bool:
        """Would a fresh enumeration tell more than this one?"""
        npus = self._bus.npus
        hung = [one.identity for one in self._duty.quarantine.chips if one.identity is not None]
        unanswered = any(
            reading.health is None and (reading.error is None or reading.error in dcmi_codes.STALE)
            for reading in readings.values()
        )
        missing = self._duty.known - readings.keys() - {one.phy for one in hung}
        listed = {one.pci for one in [*hung, *(chip.identity for chip in self.enumeration.chips.values())]}
        uneven = npus is not None and None not in listed and npus != listed
        return self.enumeration.gaps > 0 or unanswered or bool(missing) or uneven
