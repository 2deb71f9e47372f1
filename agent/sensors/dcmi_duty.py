"""Who is asked for the driver: the DCMI child on duty, its replacement, and the chips that no child may touch.

The child may hang in the kernel where SIGKILL does not reach it. Then it is abandoned: one replacement takes over and
leaves out the chip that hung, which is unknown from then on and tried again alone, in a child of its own, once the
abandoned one is gone. A replacement that hangs as well is the end: nothing is started, the driver is silent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from agent.metrics import Metrics
from agent.sensors.patience import Backoff, Hung, Quarantine, Renewal
from agent.sensors.worker import ChipFacts, Enumeration, Worker, WorkerGone, WorkerHung
from agent.sensors.worker_pool import Blind, WorkerPool
from shared.aio import cancel

log = logging.getLogger(__name__)

START_PATIENCE_S = 3.0


class Duty:
    """At most one worker at a time, and at most one replacement beside an abandoned child.

    `worker`: the child that is asked now, None when there is none. `enumeration`: what it found. `known`: physical
    ids of all chips that any child has found.
    """

    def __init__(self, library: Path, *, metrics: Metrics, init_timeout_s: float, call_timeout_s: float) -> None:
        self.worker: Worker | None = None
        self.enumeration = Enumeration({})
        self.known: set[int] = set()
        self.quarantine = Quarantine()
        self.renewal = Renewal()
        self._pool = WorkerPool(
            library,
            init_timeout_s=init_timeout_s,
            call_timeout_s=call_timeout_s,
            on_return=self._try_at_once,
            metrics=metrics,
        )
        self._backoff = Backoff()
        self._blind_because = ""
        self._trial: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[tuple[Worker, Enumeration]] | None = None
        self._first_patience_s = 2 * init_timeout_s

    async def ensure(self) -> bool:
        """A worker whose enumeration is not stale; True when it was made now. Raises Blind."""
        now = time.monotonic()
        if self.worker is not None and self._starting is None and not self.renewal.due(now):
            return False
        if self._starting is None and self._backoff.waiting(now):
            raise Blind(self._blind_because)
        return await self.replace()

    async def replace(self) -> bool:
        """A fresh worker that has enumerated, leaving out the chips that hung. Raises Blind.

        Only the first start is waited for to its end. Later, chips that were well a moment ago must not pass for well
        while an init takes long: the poll ends blind, the start goes on and is there for the next. A worker that still
        answers stays on duty meanwhile (then False): with a dead management controller every init takes 16 s.
        """
        patience_s = START_PATIENCE_S if self.known else self._first_patience_s
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_without_hung(), name="DCMI child start")
        elif self.worker is not None:
            patience_s = 0.0
        done, _ = await asyncio.wait([self._starting], timeout=patience_s)
        if not done:
            if self.worker is not None:
                return False
            raise Blind("the library's init in the new DCMI child has not come back yet")
        started, self._starting = self._starting, None
        self.drop()
        try:
            self.worker, enumeration = started.result()
        except Blind as exc:
            raise self.give_up(str(exc)) from exc
        self._backoff.succeeded()
        self.renewal.done(time.monotonic())
        self.enumeration = enumeration
        self.known |= enumeration.chips.keys()
        return True

    def drop(self) -> None:
        """Abandon the child on duty."""
        if self.worker is not None:
            self._pool.abandon(self.worker.child)
            self.worker = None

    def set_aside(self, chip: ChipFacts | None, hung: WorkerHung | WorkerGone) -> None:
        """Abandon the worker and leave the chip out from now on."""
        if chip is not None:
            self.quarantine.add(chip.ref, chip.identity, str(hung), time.monotonic())
        pid = self.worker.child.pid if self.worker else 0
        log.error("%s; abandoning the DCMI child (pid %d), the other chips are read by another", hung, pid)
        self.drop()

    def give_up(self, why: str) -> Blind:
        """The driver is silent, for as long as the back-off lasts. To be raised."""
        self.drop()
        self._blind_because = why
        self._backoff.failed(time.monotonic())
        return Blind(why)

    def try_hung_chip(self) -> None:
        """Ask a chip that hung again, in a child of its own, when no other hangs."""
        hung = self.quarantine.due(time.monotonic())
        if hung is None or self._pool.hanging or (self._trial is not None and not self._trial.done()):
            return
        self._trial = asyncio.create_task(self._ask_again(hung), name="hung chip trial")

    async def close(self) -> None:
        """End every child, waiting at most a moment for each."""
        if self._trial is not None:
            await cancel(self._trial)
        if self._starting is not None:
            await cancel(self._starting)
            self.drop()
            if not self._starting.cancelled() and self._starting.exception() is None:
                self.worker, _ = self._starting.result()
        self.drop()
        await self._pool.close()

    async def _start_without_hung(self) -> tuple[Worker, Enumeration]:
        try:
            return await self._pool.start(self.quarantine.refs)
        except Blind as exc:
            if exc.ref is None:
                raise
            log.error("%s; once more without that chip", exc)
            self.quarantine.add(exc.ref, None, str(exc), time.monotonic())
        return await self._pool.start(self.quarantine.refs)

    def _try_at_once(self) -> None:
        self.quarantine.hurry(time.monotonic())

    async def _ask_again(self, hung: Hung) -> None:
        others = {chip.ref for chip in self.enumeration.chips.values()} | set(self.quarantine.refs)
        try:
            worker, enumeration = await self._pool.start(tuple(others - {hung.ref}))
        except Blind as exc:
            self.quarantine.add(hung.ref, hung.identity, str(exc), time.monotonic())
            return
        try:
            async for reading in worker.read(enumeration.chips.values()):
                log.info("chip %d answers again (health %s)", reading.chip.phy, reading.health)
            self.quarantine.remove(hung.ref)
            self.quarantine.hurry(time.monotonic())  # where one answers again, others may
            self.renewal.ask()
        except (WorkerHung, WorkerGone) as exc:
            self.quarantine.add(hung.ref, hung.identity, str(exc), time.monotonic())
            log.warning("%s, still; the next try comes in about %.0f s", exc, 2 * hung.pause_s)
        finally:
            self._pool.abandon(worker.child)
