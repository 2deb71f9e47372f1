"""The driver, read through a DCMI child: deadlines, hung chips, stale enumerations, at most one replacement.

The child may hang in the kernel where SIGKILL does not reach it. Then it is abandoned: one replacement takes over and
leaves out the chip that hung, which is unknown from then on and tried again alone, in a child of its own, once the
abandoned one is gone. Two abandoned children are the end: nothing is started, the driver is silent.
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
from agent.sensors.gauges import Measured
from agent.sensors.patience import Backoff, Hung, Quarantine, Renewal
from agent.sensors.worker import ChipFacts, Enumeration, Ref, Worker, WorkerGone, WorkerHung
from agent.sensors.worker_pool import Blind, WorkerPool
from shared.aio import cancel

log = logging.getLogger(__name__)

INIT_TIMEOUT_S = 20.0  # 16 s were seen with a dead management controller
CALL_TIMEOUT_S = 1.0
START_PATIENCE_S = 3.0
FAILURES_IN_A_POLL = 2
GAUGE_PAUSE_S = 3600.0
"""A gauge that hung is left alone so long: it must not cost the chip its health readings."""


class Bus(Protocol):
    """What the sensor needs of the PCI bus."""

    npus: frozenset[str] | None


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
        self.enumeration = Enumeration({})
        self._bus = bus
        self._pool = WorkerPool(
            library,
            init_timeout_s=init_timeout_s,
            call_timeout_s=call_timeout_s,
            on_return=self._try_at_once,
            metrics=metrics,
        )
        self._lock = asyncio.Lock()
        self._worker: Worker | None = None
        self._quarantine = Quarantine()
        self._renewal = Renewal()
        self._backoff = Backoff()
        self._blind_because = ""
        self._known: set[int] = set()
        self._gauge_pauses: dict[tuple[str, Ref], float] = {}
        self._trial: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[tuple[Worker, Enumeration]] | None = None
        self._first_patience_s = 2 * init_timeout_s

    def renew(self) -> None:
        """Enumerate anew at the next poll: the bus has changed, or a chip says that it has booted."""
        self._renewal.ask()

    async def poll(self) -> DriverReading:
        """Health and codes of every chip."""
        async with self._lock:
            self._try_hung_chip()
            try:
                fresh, readings = await self._read_all()
                self._renewal.note(self._looks_stale(readings))
                if self._worker is not None and not fresh and self._renewal.due(time.monotonic()):
                    fresh, readings = await self._read_all()
            except Blind as exc:
                return DriverReading(silent=str(exc), pci=self._bus.npus)
            except asyncio.CancelledError:
                self._drop_worker()  # its next line would be taken for the answer to another request
                raise
            for hung in self._quarantine.chips:
                if hung.identity is not None:
                    readings[hung.identity.phy] = ChipReading(hung.identity, hung=True, why=hung.why)
            chips = tuple(readings[phy] for phy in sorted(readings))
            nameless = sum(hung.identity is None for hung in self._quarantine.chips)
            return DriverReading(chips=chips, fresh=fresh, pci=self._bus.npus, gaps=self.enumeration.gaps + nameless)

    async def read(self, phy: int) -> ChipReading | None:
        """One chip now; None when the chip is not enumerated or nobody can be asked."""
        async with self._lock:
            chip = self.enumeration.chips.get(phy)
            if self._worker is None or chip is None or chip.ref in self._quarantine.refs:
                return None
            try:
                (reading,) = [answer async for answer in self._worker.read([chip])]
            except WorkerHung as exc:
                self._set_aside(chip, exc)
                return ChipReading(chip.identity, hung=True, why=str(exc))
            except WorkerGone as exc:
                log.warning("%s; the next poll starts another", exc)
                self._drop_worker()
                return None
            except asyncio.CancelledError:
                self._drop_worker()
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
                elif chip.ref not in self._quarantine.refs:
                    asked.append(chip)
            if self._worker is None:
                return None if self._known else ()
            try:
                async for one in self._worker.measure(what, asked):
                    measured[one.chip.phy] = one
            except (WorkerHung, WorkerGone) as exc:
                if isinstance(exc, WorkerHung) and exc.ref is not None:
                    self._gauge_pauses[what, exc.ref] = now + GAUGE_PAUSE_S
                log.error("%s; the next poll starts another DCMI child", exc)
                self._drop_worker()
                for chip in asked:
                    measured.setdefault(chip.identity.phy, Measured(chip.identity, why=str(exc)))
            except asyncio.CancelledError:
                self._drop_worker()
                raise
            return tuple(measured.values())

    async def close(self) -> None:
        """End every child, waiting at most a moment for each."""
        if self._trial is not None:
            await cancel(self._trial)
        if self._starting is not None:
            await cancel(self._starting)
            if not self._starting.cancelled() and self._starting.exception() is None:
                self._worker, _ = self._starting.result()
        self._drop_worker()
        await self._pool.close()

    # -- the worker ----------------------------------------------------------------------------------------------

    async def _ensure_worker(self) -> bool:
        """A worker whose enumeration is not stale; True when it was made now. Raises Blind."""
        now = time.monotonic()
        if self._worker is not None and not self._renewal.due(now):
            return False
        if self._starting is None and self._backoff.waiting(now):
            raise Blind(self._blind_because)
        self._drop_worker()
        await self._replace()
        return True

    async def _replace(self) -> None:
        """A fresh worker that has enumerated, leaving out the chips that hung. Raises Blind.

        Only the first start is waited for to its end. Later, chips that were well a moment ago must not pass for well
        while an init takes long: the poll ends blind, the start goes on and is there for the next.
        """
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_without_hung(), name="DCMI child start")
        patience_s = START_PATIENCE_S if self._known else self._first_patience_s
        done, _ = await asyncio.wait([self._starting], timeout=patience_s)
        if not done:
            raise Blind("the library's init in the new DCMI child has not come back yet")
        started, self._starting = self._starting, None
        try:
            self._worker, enumeration = started.result()
        except Blind as exc:
            self._give_up(str(exc))
            raise
        self._backoff.succeeded()
        self._renewal.done(time.monotonic())
        self.enumeration = enumeration
        self._known |= enumeration.chips.keys()

    async def _start_without_hung(self) -> tuple[Worker, Enumeration]:
        try:
            return await self._pool.start(self._quarantine.refs)
        except Blind as exc:
            if exc.ref is None:
                raise
            log.error("%s; once more without that chip", exc)
            self._quarantine.add(exc.ref, None, str(exc), time.monotonic())
        return await self._pool.start(self._quarantine.refs)

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._pool.abandon(self._worker.child)
            self._worker = None

    def _give_up(self, why: str) -> None:
        """The driver is silent, for as long as the back-off lasts."""
        self._blind_because = why
        self._backoff.failed(time.monotonic())

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read_all(self) -> tuple[bool, dict[int, ChipReading]]:
        """All enumerated chips, and whether they were enumerated for it. Raises Blind when no chip answers."""
        fresh = await self._ensure_worker()
        readings: dict[int, ChipReading] = {}
        failures, why = 0, ""
        ended_at: Ref | None = None
        while self._worker is not None:
            left = [chip for phy, chip in sorted(self.enumeration.chips.items()) if phy not in readings]
            try:
                async for reading in self._worker.read(left):
                    readings[reading.chip.phy] = reading
                break
            except WorkerHung as exc:
                why = str(exc)
                self._set_aside(next((chip for chip in left if chip.ref == exc.ref), None), exc)
            except WorkerGone as exc:
                why = str(exc)
                if exc.ref is not None and exc.ref == ended_at:  # twice: a call about this chip is what ends it
                    self._set_aside(next((chip for chip in left if chip.ref == exc.ref), None), exc)
                else:
                    log.warning("%s; another is started", exc)
                    self._drop_worker()
                ended_at = exc.ref
            failures += 1
            if failures >= FAILURES_IN_A_POLL:
                break
            try:
                await self._replace()
            except Blind as exc:
                why = str(exc)
                break
            fresh = True
        if not readings and failures:
            # not a matter of single chips: all of them are asked again once the driver has had a pause
            self._quarantine.hurry(time.monotonic())
            self._give_up(f"the driver answers for no chip: {why}")
            self._drop_worker()
            raise Blind(self._blind_because)
        for phy, chip in self.enumeration.chips.items():
            if phy not in readings and chip.ref not in self._quarantine.refs:
                readings[phy] = ChipReading(chip.identity, why=f"not read in this poll: {why}")
        return fresh, readings

    def _set_aside(self, chip: ChipFacts | None, hung: WorkerHung | WorkerGone) -> None:
        """Abandon the worker and leave the chip out from now on."""
        if chip is not None:
            self._quarantine.add(chip.ref, chip.identity, str(hung), time.monotonic())
        pid = self._worker.child.pid if self._worker else 0
        log.error("%s; abandoning the DCMI child (pid %d), the other chips are read by another", hung, pid)
        self._drop_worker()

    def _looks_stale(self, readings: dict[int, ChipReading]) -> bool:
        """Would a fresh enumeration tell more than this one?"""
        npus = self._bus.npus
        hung = [one.identity for one in self._quarantine.chips if one.identity is not None]
        unanswered = any(
            reading.error in dcmi_codes.STALE or (reading.error is None and reading.health is None)
            for reading in readings.values()
        )
        missing = self._known - readings.keys() - {one.phy for one in hung}
        listed = {one.pci for one in [*hung, *(chip.identity for chip in self.enumeration.chips.values())]}
        uneven = npus is not None and None not in listed and npus != listed
        return self.enumeration.gaps > 0 or unanswered or bool(missing) or uneven

    # -- hung chips ----------------------------------------------------------------------------------------------

    def _try_at_once(self) -> None:
        self._quarantine.hurry(time.monotonic())

    def _try_hung_chip(self) -> None:
        """Ask a chip that hung again, in a child of its own, when no other hangs."""
        hung = self._quarantine.due(time.monotonic())
        if hung is None or self._pool.hanging or (self._trial is not None and not self._trial.done()):
            return
        self._trial = asyncio.create_task(self._ask_again(hung), name="hung chip trial")

    async def _ask_again(self, hung: Hung) -> None:
        others = {chip.ref for chip in self.enumeration.chips.values()} | set(self._quarantine.refs)
        try:
            worker, enumeration = await self._pool.start(tuple(others - {hung.ref}))
        except Blind as exc:
            self._quarantine.add(hung.ref, hung.identity, str(exc), time.monotonic())
            return
        try:
            async for reading in worker.read(enumeration.chips.values()):
                log.info("chip %d answers again (health %s)", reading.chip.phy, reading.health)
            self._quarantine.remove(hung.ref)
            self._quarantine.hurry(time.monotonic())  # where one answers again, others may
            self._renewal.ask()
        except (WorkerHung, WorkerGone) as exc:
            self._quarantine.add(hung.ref, hung.identity, str(exc), time.monotonic())
            log.warning("%s, still; the next try comes in about %.0f s", exc, 2 * hung.pause_s)
        finally:
            self._pool.abandon(worker.child)
