"""Starts DCMI children and keeps count of those that hang: at most one replacement beside one that cannot be killed.

A replacement that hangs too makes two that hang, and ends it: nothing is started beside them. To start none at all
beside the first would let one chip that hangs in the kernel blind the other fifteen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from agent.metrics import Metrics
from agent.sensors.child import Child
from agent.sensors.worker import SCRIPT, DriverRefused, Enumeration, Ref, Worker, WorkerGone, WorkerHung
from shared.aio import cancel

log = logging.getLogger(__name__)

ENUMERATION_TIMEOUT_S = 5.0  # for each chip: ten calls stand behind it
MAX_ABANDONED = 1
"""So many may hang beside a child that is asked."""
DEATH_S = 0.5
"""A process that can be killed is gone by then. One that takes longer was in a call that has come back."""


class Blind(Exception):
    """The driver as a whole cannot be asked; the text says why. `ref`: the chip at which enumeration hung."""

    def __init__(self, why: str, ref: Ref | None = None) -> None:
        super().__init__(why)
        self.ref = ref


class WorkerPool:
    """`on_return` is called when a call that had hung has come back, which shows in the late death of its child."""

    def __init__(
        self,
        library: Path,
        *,
        init_timeout_s: float,
        call_timeout_s: float,
        on_return: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._library, self._metrics, self._on_return = library, metrics, on_return
        self._init_timeout_s, self._call_timeout_s = init_timeout_s, call_timeout_s
        self._dying: dict[Child, asyncio.Task[None]] = {}

    @property
    def hanging(self) -> bool:
        """Whether an abandoned child has not died yet."""
        return bool(self._dying)

    async def start(self, skip: tuple[Ref, ...]) -> tuple[Worker, Enumeration]:
        """A worker after init and enumeration of all chips but `skip`. Raises Blind, and then no child is left."""
        if len(self._dying) > MAX_ABANDONED:
            await asyncio.wait(self._dying.values(), timeout=DEATH_S, return_when=asyncio.FIRST_COMPLETED)
        if len(self._dying) > MAX_ABANDONED:
            pids = ", ".join(str(child.pid) for child in self._dying)
            raise Blind(f"children {pids} hang in the driver and cannot be killed; no other is started")
        try:
            child = await Child.start("DCMI child", SCRIPT, self._library)
        except OSError as exc:
            raise Blind(f"the DCMI child cannot be started: {exc}") from exc
        self._metrics.children_started.labels("dcmi").inc()
        worker = Worker(child, call_timeout_s=self._call_timeout_s)
        try:
            await worker.begin(self._init_timeout_s)
            return worker, await worker.enumerate(skip, ENUMERATION_TIMEOUT_S)
        except WorkerHung as exc:
            self.abandon(child)
            raise Blind(f"{self._library}: {exc}; its child (pid {child.pid}) is abandoned", exc.ref) from exc
        except (WorkerGone, DriverRefused) as exc:
            self.abandon(child)
            raise Blind(f"{self._library}: {exc}") from exc
        except asyncio.CancelledError:
            self.abandon(child)
            raise

    def abandon(self, child: Child) -> None:
        """Kill without waiting; the count goes down when it has died."""
        child.kill()
        self._dying[child] = asyncio.create_task(self._bury(child), name=f"end of pid {child.pid}")
        self._metrics.children_abandoned.inc()

    async def _bury(self, child: Child) -> None:
        since = time.monotonic()
        await child.gone()
        del self._dying[child]
        self._metrics.children_abandoned.dec()
        took_s = time.monotonic() - since
        if took_s > DEATH_S:
            log.info("the abandoned %s (pid %d) is gone after %.1f s", child.name, child.pid, took_s)
            self._on_return()

    async def close(self) -> None:
        """Wait a moment for the dying; the rest is left to the kernel."""
        children = list(self._dying)
        await cancel(*self._dying.values())
        await asyncio.gather(*(child.end() for child in children))
