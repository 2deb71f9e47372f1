"""The leader's loop: whenever something has changed or is due, take a snapshot, plan, hand the plan to the executor.

The first plan for 10,000 nodes takes a second of CPU, later ones a tenth of it (`core/known.py`). It is made in a
thread, on a snapshot that nobody else touches, so that the lease is renewed and reports are read meanwhile.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.core import fold
from reconciler.core.actions import Hold, Plan
from reconciler.core.drills import silencing
from reconciler.core.known import Known
from reconciler.core.plan import plan
from reconciler.core.state import Memory, State
from reconciler.core.urgency import in_order
from reconciler.executor import Executor
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from shared import aio
from shared.aio import Ticks
from shared.model import Instant

log = logging.getLogger(__name__)

LOOP = "planner"
LATE_S = 30.0
DEBOUNCE_S = 0.01
LONGEST_S = 5.0
FAILED_PAUSE_S = 1.0


class Planner:
    """reports_ok, watch_ok: whether silence, and whether the mirror of the cluster, can be relied on right now.
    held: told the refusals of each plan. clock: the wall clock that leaders share.

    `state` and `plan`: the newest of each, for those who ask. Owned by one task that runs `run` while this replica
    leads.
    """

    def __init__(
        self,
        mirror: Mirror,
        executor: Executor,
        reports_ok: Callable[[], bool],
        watch_ok: Callable[[], bool],
        held: Callable[[Sequence[Hold], Instant], None],
        metrics: Metrics,
        ticks: Ticks,
        clock: Callable[[], Instant] = aio.now,
    ) -> None:
        self._mirror, self._executor, self._clock = mirror, executor, clock
        self._reports_ok, self._watch_ok, self._held = reports_ok, watch_ok, held
        self._metrics, self._ticks = metrics, ticks
        self._known = Known()
        self._observed: set[str] = set()
        self.state: State | None = None
        self.plan = Plan((), (), None)

    async def run(self) -> None:
        """For ever; ends by cancellation only."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            while True:
                self._ticks.tick(LOOP)
                rest_s = await self._once()
                await asyncio.sleep(DEBOUNCE_S)  # a burst of changes is one plan
                # However long plans take, half of the time is left for the rest; only a new fault does not wait for it.
                await _within(rest_s - DEBOUNCE_S, self._mirror.alarmed)
                await self._news()
        finally:
            self._ticks.forget(LOOP)

    async def _once(self) -> float:
        """One plan, and how long to rest after it. A bug in it is said and tried again: watching goes on."""
        mirror, started = self._mirror, time.monotonic()
        mirror.changed.clear()
        mirror.alarmed.clear()
        now = self._clock()
        try:
            mirror.world.reports_ok, mirror.world.watch_ok = self._reports_ok(), self._watch_ok()
            fold.advance(mirror.world, now, self._known)
            state = dataclasses.replace(mirror.world.snapshot(), memory=_copied(mirror.world.memory))
            self.plan = await asyncio.to_thread(plan, state, now, self._known)
            self.state = state
        except Exception:
            log.exception("no plan could be made: nothing is decided until this is mended")
            self._metrics.failed_plans.inc()
            self._known = Known()  # it may be half of one round and half of the next
            await asyncio.sleep(FAILED_PAUSE_S)
            return 0.0
        self._executor.take(in_order(self.plan.actions), as_of=now.mono)
        self._held(self.plan.holds, now)
        self._say_observed(self.plan)
        self._count(now.mono)
        took_s = time.monotonic() - started
        self._metrics.plans.inc()
        self._metrics.plan_seconds.observe(took_s)
        return took_s

    async def _news(self) -> None:
        """Until something changes, something is due, or a few seconds have passed."""
        due = [time.monotonic() + LONGEST_S, self.plan.wake_at, self._executor.wake_at()]
        await _within(min(at for at in due if at is not None) - time.monotonic(), self._mirror.changed)

    def _say_observed(self, newest: Plan) -> None:
        """Under observe_only, what would have been done is said once for each object."""
        would = {f"{hold.subject}: {hold.message}" for hold in newest.holds if hold.reason == "observe-only"}
        for text in sorted(would - self._observed):
            log.info("observe-only: %s", text)
        self._observed = would

    def _count(self, now: float) -> None:
        world, metrics = self._mirror.world, self._metrics
        metrics.paused.set(world.paused is not None)
        metrics.holds.clear()
        for reason, count in Counter(hold.reason for hold in self.plan.holds).items():
            metrics.holds.labels(reason).set(count)
        ages = {node: now - heard.at for node, heard in world.heard.items() if node in world.nodes}
        metrics.silent_nodes.set(len(world.nodes) - len(ages))
        for node in self._silent_by_drill():
            ages.pop(node, None)  # nobody is called for a silence that is asked for
        metrics.oldest_report_seconds.set(max(ages.values(), default=0.0))

    def _silent_by_drill(self) -> list[str]:
        state, at = self.state, aio.now()
        return [name for name in state.heard if silencing(state, name, at) is not None] if state is not None else []


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Until the event, or so long."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return


def _copied(memory: Memory) -> Memory:
    """A memory that later outcomes do not reach: its tables, and the tables in them, are copies."""
    return Memory(**{field.name: _copy(getattr(memory, field.name)) for field in dataclasses.fields(memory)})


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: dict(item) if isinstance(item, dict) else item for key, item in value.items()}
    return list(value) if isinstance(value, list) else value
