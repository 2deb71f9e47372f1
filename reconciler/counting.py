"""What the metrics say of each plan and of each action's outcome. It only counts; nothing is decided from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from prometheus_client import Gauge

from reconciler.core import clock, devices
from reconciler.core.actions import Action, OpenRecovery, Plan, Progress, Release
from reconciler.core.calls import Outcome
from reconciler.core.objects import Node
from reconciler.core.recovery import FINISHED_PHASES, OPEN_PHASES, RecoverySpec, RecoveryStatus, Times
from reconciler.core.state import State
from reconciler.core.taints import current_want, record_of
from reconciler.metrics import Metrics
from shared.model import FaultLevel, Instant

SUSPICIOUS_S = 600.0
"""An isolation that ends so soon, although nobody has repaired anything, may have been none that was needed."""
_STAGES = [name for name in Times.__struct_fields__ if name != "finished"]


class Counting:
    """`planned` after each plan, `came_of` after each action, `ended` when this replica leads no more."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._missing: dict[str, tuple[Node, int]] = {}
        """NPUs withdrawn, by node: counted again when the node is another object."""

    def planned(self, state: State, plan: Plan) -> None:
        metrics = self._metrics
        taints = Counter(
            (want.value, _origin(node))
            for node in state.nodes.values()
            if node.spec.taints and (want := current_want(node)) is not None
        )
        _set_all(metrics.isolated_nodes, taints)
        self._missing = {
            name: known if (known := self._missing.get(name)) and known[0] is node else (node, devices.missing(node))
            for name, node in state.nodes.items()
        }
        metrics.withdrawn_npus.set(sum(missing for _, missing in self._missing.values()))
        faults = Counter((f.level.value, f.origin) for heard in state.heard.values() for f in heard.report.faults)
        _set_all(metrics.open_faults, {(level.value, "probe"): 0 for level in FaultLevel} | faults)
        _set_all(metrics.blind_sources, Counter(u.probe for h in state.heard.values() for u in h.report.unknown))
        phases = Counter((recovery.status.phase, recovery.spec.origin) for recovery in state.recoveries.values())
        _set_all(metrics.recoveries, {(phase, "probe"): 0 for phase in OPEN_PHASES | FINISHED_PHASES} | phases)
        _set_all(metrics.incidents, Counter(one.kind for one in plan.incidents))
        if (brakes := plan.brakes) is None:
            return
        metrics.breaker_open.set(brakes.breaker_open)
        metrics.breaker_nodes.set(brakes.isolated)
        metrics.breaker_limit.set(brakes.breaker_limit)
        metrics.budget_used.set(brakes.restarting)
        if brakes.restart_slots is not None:
            metrics.budget_slots.set(brakes.restart_slots)

    def ended(self) -> None:
        """This replica leads no more: what it last knew is not what is."""
        metrics = self._metrics
        for table in (metrics.isolated_nodes, metrics.open_faults, metrics.blind_sources, metrics.recoveries):
            table.clear()
        metrics.incidents.clear()
        metrics.holds.clear()
        for gauge in (
            metrics.paused,
            metrics.queue,
            metrics.backing_off,
            metrics.withdrawn_npus,
            metrics.breaker_open,
            metrics.breaker_nodes,
            metrics.breaker_limit,
            metrics.budget_used,
            metrics.budget_slots,
            metrics.oldest_report_seconds,
            metrics.silent_nodes,
        ):
            gauge.set(0)

    def came_of(self, action: Action, outcome: Outcome, now: Instant) -> None:
        if not outcome.done:
            return
        match action:
            case Release():
                self._released(action, now)
            case Progress(recovery=recovery, status=status) if status.phase in FINISHED_PHASES and recovery.open:
                self._finished(recovery.spec, status)
            case OpenRecovery(spec=spec, status=status) if status.phase in FINISHED_PHASES:
                self._finished(spec, status)
            case _:
                pass

    def _released(self, action: Release, now: Instant) -> None:
        """Planned work and a person's own isolation are no verdict of the warden, so their end says nothing of it."""
        record = record_of(action.node)
        since = clock.parse(record.since) if record is not None and record.by == "warden" else None
        if since is not None and now.wall - since < SUSPICIOUS_S:
            self._metrics.false_isolations.labels("operator" if action.by_hand else "warden").inc()

    def _finished(self, spec: RecoverySpec, status: RecoveryStatus) -> None:
        """From one time that is known to the next: what was skipped took no time of its own."""
        known = [(name, at) for name in _STAGES if (at := clock.parse(getattr(status.times, name))) is not None]
        for (_, began), (name, ended) in pairwise(known):
            self._metrics.recovery_phase_seconds.labels(name, spec.origin).observe(max(0.0, ended - began))
        finished = clock.parse(status.times.finished)
        if known and finished is not None:
            took_s = max(0.0, finished - known[0][1])
            self._metrics.recovery_seconds.labels(status.phase, spec.level, spec.origin).observe(took_s)


def _origin(node: Node) -> str:
    """Whether a drill alone has isolated it: no alert counts such a node."""
    record = record_of(node)
    return "drill" if record is not None and record.by == "drill" else "probe"


def _set_all(gauge: Gauge, values: Mapping[str, int] | Mapping[tuple[str, str], int]) -> None:
    """What is not among them any more is gone, not zero."""
    gauge.clear()
    for label, value in values.items():
        gauge.labels(*([label] if isinstance(label, str) else label)).set(value)
