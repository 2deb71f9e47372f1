"""Makes what the page shows at one moment, as tables of small rows.

Pure. What grows older by itself (the age of a report) is no part of a row, so that a quiet cluster of 10,000 nodes
sends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from reconciler import drill_view, views
from reconciler.answers import OpenFault, Warden
from reconciler.core.actions import Incident, Plan
from reconciler.core.objects import Node
from reconciler.core.recovery import Recovery
from reconciler.core.state import State
from reconciler.page.delta import Frame, Table
from reconciler.page.rows import HoldRow, IncidentRow, NodeRow, Now, RecoveryRow
from shared.model import NODE, Chip, Fault, FaultLevel, Instant, NodeReport

MAX_FAULTS = 500
MAX_FINISHED = 50
MAX_OPEN = 200
MAX_EXAMPLES = 5
"""Longer lists are for `npu-warden` and the API; the page says how many there are."""

_RANK = {level: rank for rank, level in enumerate(FaultLevel)}
_OK, _UNKNOWN = ".", "?"
_REAL, _DRILL = "012345678", "abcdefghi"
"""A chip with a fault is the rank of its worst one; a letter where drills are all there is."""


_Told = tuple[Node | None, NodeReport | None, NodeRow]


class Framer:
    """Makes frames of one leader's states, one at a time. A node is judged again when its object or its report says
    something else, and all of them in a `full` frame: time alone makes a node silent or dead."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def frame(self, state: State, plan: Plan, warden: Warden, now: Instant, *, full: bool) -> Frame:
        return Frame(
            now=_now(state, plan, warden),
            tables={
                "nodes": self._nodes(state, now, {} if full else self._told),
                "incidents": {one.id: _incident(one) for one in plan.incidents},
                "faults": _faults(state),
                "recoveries": recoveries(state),
                "drills": {f"{row.name}@{row.node}": row for row in drill_view.drills(state, now)},
                "holds": _holds(plan),
            },
        )

    def _nodes(self, state: State, now: Instant, known: Mapping[str, _Told]) -> Table:
        told: dict[str, _Told] = {}
        for name in sorted(state.nodes):
            node, heard = state.nodes[name], state.heard.get(name)
            report, before = heard.report if heard else None, known.get(name)
            if before is None or before[0] is not node or not _same(before[1], report):
                told[name] = (node, report, _node(state, name, now))
            else:
                told[name] = before
        self._told = told
        return {name: row for name, (_, _, row) in told.items()}


def _same(one: NodeReport | None, other: NodeReport | None) -> bool:
    """Whether a heartbeat has said the same again."""
    if one is None or other is None:
        return one is other
    return (one.chips, one.faults, one.unknown) == (other.chips, other.faults, other.unknown)


def _node(state: State, name: str, now: Instant) -> NodeRow:
    shown, heard = views.node(state, name, now), state.heard.get(name)
    chips, faults = (heard.report.chips, heard.report.faults) if heard else ((), ())
    # Where one probe is blind nobody can say that all is well.
    worst: dict[int | str, str] = {unknown.chip: _UNKNOWN for unknown in heard.report.unknown} if heard else {}
    for fault in sorted(faults, key=_seriousness):
        worst[fault.chip] = (_DRILL if fault.origin == "drill" else _REAL)[_RANK[fault.level]]
    return NodeRow(
        verdict=shown.verdict[0],
        chips="".join(_chip(chip, worst) for chip in sorted(chips, key=lambda chip: chip.phy)),
        itself=worst.get(NODE, ""),
        taint=shown.taint.value if shown.taint else "",
    )


def _seriousness(fault: Fault) -> tuple[bool, int]:
    """A drill hides no real fault."""
    return fault.origin != "drill", _RANK[fault.level]


def _chip(chip: Chip, worst: Mapping[int | str, str]) -> str:
    return worst.get(chip.phy) or (_OK if chip.health == "ok" else _UNKNOWN)


def _now(state: State, plan: Plan, warden: Warden) -> Now:
    found = [fault for heard in state.heard.values() for fault in heard.report.faults]
    levels = Counter(fault.level for fault in found if fault.origin != "drill")
    return Now(
        warden=warden,
        brakes=plan.brakes,
        fault_levels={level.value: levels[level] for level in FaultLevel if levels[level]},
        drill_faults=len(found) - levels.total(),
        open_recoveries=sum(one.open for one in state.recoveries.values()),
    )


def _faults(state: State) -> Table:
    """The most serious ones, of these the newest."""
    found = [(name, fault) for name, heard in state.heard.items() for fault in heard.report.faults]
    found.sort(key=lambda pair: (-_RANK[pair[1].level], -pair[1].since, pair[0], pair[1].id))
    return {f"{name}/{fault.id}": _fault(name, fault) for name, fault in found[:MAX_FAULTS]}


def _fault(node: str, fault: Fault) -> OpenFault:
    """Without its evidence, which `why` shows."""
    return msgspec.structs.replace(views.open_fault(node, fault), evidence={})


def recoveries(state: State) -> Table:
    """The open ones, and of the finished ones the newest."""
    by_age = sorted(state.recoveries.values(), key=lambda one: one.metadata.creation_timestamp or "", reverse=True)
    opened = [one for one in by_age if one.open][:MAX_OPEN]
    finished = [one for one in by_age if not one.open][:MAX_FINISHED]
    return {one.metadata.key: _recovery(one) for one in (*opened, *finished)}


def _recovery(one: Recovery) -> RecoveryRow:
    spec, status = one.spec, one.status
    return RecoveryRow(
        unit=spec.unit,
        level=spec.level,
        method=spec.method,
        phase=status.phase,
        open=one.open,
        origin=spec.origin,
        pods=spec.size or len(spec.targets),
        cause=spec.cause.faults or spec.cause.nodes or (spec.cause.kind,),
        created=one.metadata.creation_timestamp or "",
        reason=status.reason,
        message=status.message,
        duration=status.duration,
        times=status.times,
    )


def _incident(one: Incident) -> IncidentRow:
    return IncidentRow(one.kind, one.since, one.why, len(one.members), len(one.held), one.members[:MAX_EXAMPLES])


def _holds(plan: Plan) -> Table:
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for hold in plan.holds:
        by_reason.setdefault(hold.reason, []).append((hold.subject, hold.message))
    return {reason: HoldRow(len(all_), tuple(all_[:MAX_EXAMPLES])) for reason, all_ in sorted(by_reason.items())}
