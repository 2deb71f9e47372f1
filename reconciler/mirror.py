"""The one owner of the World: everything that is learned goes through here, and wakes the planner.

Nothing here decides. An object or a report that cannot be read is counted and said, the rest goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from reconciler.core import fold
from reconciler.core.actions import Action, Isolate
from reconciler.core.calls import Outcome
from reconciler.core.fold import BadObject
from reconciler.core.rejections import remember
from reconciler.core.state import Memory, World
from reconciler.metrics import Metrics
from shared import aio
from shared.model import Instant, NodeReport

log = logging.getLogger(__name__)


class Mirror:
    """Implements the watches' sink, takes the inbox's reports and the executor's outcomes."""

    def __init__(self, world: World, metrics: Metrics) -> None:
        self.world = world
        self.changed = asyncio.Event()
        self.alarmed = asyncio.Event()
        """Among what has changed is a fault that was not there before."""
        self._metrics = metrics

    def begin(self, holder: str, now: Instant) -> None:
        """A new term of leadership: what an earlier one remembered beside the cluster is out of date."""
        world = self.world
        world.holder, world.leader_since = holder, now.mono
        world.heard.clear()
        world.retired_sessions.clear()
        world.memory = Memory()
        for pod in world.pods.values():
            remember(world.memory, pod)
        world.reports_ok = False
        self.changed.set()

    def replace(self, kind: str, raws: Sequence[bytes]) -> None:
        """A full list of one kind."""
        try:
            fold.replace_all(self.world, kind, raws)
        except BadObject:
            fold.replace_all(self.world, kind, [raw for raw in raws if self._readable(kind, raw)])
        self.world.kinds.add(kind)
        self.changed.set()

    def observe(self, kind: str, change: str, raw: bytes) -> None:
        """One change of one object."""
        try:
            fold.observe(self.world, kind, change, raw)
        except BadObject as exc:
            self._bad(kind, exc)
        self.changed.set()

    def missing(self, kind: str) -> None:
        """The API server does not serve this kind (any more)."""
        fold.replace_all(self.world, kind, ())
        self.world.kinds.discard(kind)
        self.changed.set()

    def accept(self, report: NodeReport) -> str | None:
        """A node's report; the answer is None, or why it was not taken.

        A heartbeat that says what the last one said wakes nobody: 10,000 nodes send 700 of them a second.
        """
        before = self.world.heard.get(report.node)
        now = aio.now()
        why_not = fold.heard(self.world, report, now)
        if why_not is None and before is not None:  # a new leader's first one was not made for it
            self._metrics.report_lag_seconds.observe(max(0.0, now.wall - report.at))
        if why_not is None and (before is None or _said(before.report) != _said(report)):
            self.changed.set()
            if report.faults and (before is None or _ids(report) - _ids(before.report)):
                self.alarmed.set()
        return why_not

    def outcome(self, action: Action, outcome: Outcome) -> None:
        """What an action has come to; its own writes are visible to the next plan."""
        now = aio.now()
        if isinstance(action, Isolate) and outcome.done:
            self._report_to_taint(action.node.metadata.name, now)
        try:
            fold.outcome(self.world, action, outcome, now)
        except BadObject as exc:
            self._bad(action.key.partition("/")[0], exc)
        self.changed.set()

    def _report_to_taint(self, node: str, now: Instant) -> None:
        """Counted from the newest fault of the node: an isolation by hand or of a dead node has none."""
        opened = [at for (name, _), at in self.world.memory.first_heard.items() if name == node]
        if opened:
            self._metrics.report_to_taint_seconds.observe(now.mono - max(opened))

    def _readable(self, kind: str, raw: bytes) -> bool:
        try:
            fold.observe(World(), kind, "set", raw)
        except BadObject as exc:
            self._bad(kind, exc)
            return False
        return True

    def _bad(self, kind: str, exc: BadObject) -> None:
        self._metrics.bad_objects.labels(kind).inc()
        log.error("an object of the API server cannot be read and is left out: %s", exc)


def _ids(report: NodeReport) -> set[str]:
    return {fault.id for fault in report.faults}


def _said(report: NodeReport) -> tuple[object, ...]:
    return report.session, report.chips, report.faults, report.unknown, report.drill
