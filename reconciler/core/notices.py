"""What people are told by webhook: one notice for each isolation, release, end of a recovery and held incident.

Taken from what the cluster shows, not from what this process has done: a new leader looks at the same objects, says
again what is younger than `CATCH_UP_S`, and gives it the same ids, by which a receiver knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Hold, Incident
from reconciler.core.judge import few
from reconciler.core.objects import Node
from reconciler.core.policy import Told
from reconciler.core.recovery import FINISHED_PHASES, Recovery
from reconciler.core.state import Record, State
from reconciler.core.taints import ON_PROBATION, current_want, record_of
from shared.model import Instant

CATCH_UP_S = 3600.0
"""What is older when this leader looks for the first time has been told by the one before it."""
INCIDENTS = ("common-cause", "breaker")
"""Refusals that hold back the warden as a whole until somebody has looked."""
QUIET_S = 60.0
"""An incident that comes back so soon is the same one."""
_ENDS: dict[str, Told] = {
    "Recovered": "recovered",
    "Exhausted": "exhausted",
    "Escalated": "failed",
    "OwnerTerminal": "failed",
}
"""Aborted and Superseded are not among them: nothing has been restarted, or another recovery goes on with it."""


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that has happened, as a receiver gets it.

    id: the same whenever it is sent again. at: RFC 3339. text: one sentence. drill: it is only practised.
    observe_only: the warden only watches (policy.toml), so nobody but a person acts on it; left out where it acts.
    taint, reasons: of an isolation. recovery: namespace/name. took: such as `14m05s`. subjects: what a held incident
    holds back; incidents: ids of what the nodes have in common, as in /v1/incidents.
    """

    id: str
    event: Told
    at: str
    text: str
    drill: bool
    node: str | None = None
    taint: str | None = None
    reasons: tuple[str, ...] = ()
    recovery: str | None = None
    unit: str | None = None
    phase: str | None = None
    reason: str | None = None
    took: str | None = None
    subjects: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    observe_only: bool = False


@dataclass(frozen=True, slots=True)
class _Isolated:
    session: str
    drill: bool


class NoticeBook:
    """What has been told already. One leader owns one."""

    def __init__(self) -> None:
        self._first = True
        self._isolated: dict[str, _Isolated] = {}
        self._told: set[tuple[str, str]] = set()
        self._incidents: dict[str, float] = {}

    def look(self, state: State, holds: Iterable[Hold], incidents: Iterable[Incident], now: Instant) -> list[Notice]:
        """What is new since the last look. holds, incidents: of the plan that was made from this state."""
        found = [*self._nodes(state, now), *self._recoveries(state, now), *self._held(holds, tuple(incidents), now)]
        self._first = False
        if state.policy.observe_only:
            return [msgspec.structs.replace(one, observe_only=True) for one in found]
        return found

    def _fresh(self, at: str | None, now: Instant) -> bool:
        """Whether this is to be told: everything, but at the first look only what is young."""
        wall = clock.parse(at)
        return not self._first or wall is None or now.wall - wall < CATCH_UP_S

    def _nodes(self, state: State, now: Instant) -> Iterator[Notice]:
        for name, node in state.nodes.items():
            record, standing, known = record_of(node), current_want(node), self._isolated.get(name)
            if record is not None and standing not in (None, ON_PROBATION):
                drill = _only_a_drill(state, name, record)
                # What is really broken since a drill has isolated the node is told as if nothing had been told.
                if known is not None and known.session == record.session and (drill or not known.drill):
                    continue
                self._isolated[name] = _Isolated(record.session, drill)
                if self._fresh(record.since, now):
                    yield _isolation(node, record, drill)
            elif known is not None and _given_back(record, on_probation=standing == ON_PROBATION):
                del self._isolated[name]
                yield _release(name, known, now)
        for name in [name for name in self._isolated if name not in state.nodes]:
            del self._isolated[name]

    def _recoveries(self, state: State, now: Instant) -> Iterator[Notice]:
        seen: set[tuple[str, str]] = set()
        for recovery in state.recoveries.values():
            notice = _recovery(recovery)
            if notice is None:
                continue
            key = (recovery.metadata.uid, notice.id)
            seen.add(key)
            if key not in self._told and self._fresh(notice.at, now):
                yield notice
        self._told = seen

    def _held(self, holds: Iterable[Hold], incidents: tuple[Incident, ...], now: Instant) -> Iterator[Notice]:
        by_reason: dict[str, list[Hold]] = {}
        for hold in holds:
            if hold.reason in INCIDENTS:
                by_reason.setdefault(hold.reason, []).append(hold)
        for reason, held in by_reason.items():
            last = self._incidents.get(reason)
            self._incidents[reason] = now.mono
            if last is None or now.mono - last > QUIET_S:
                yield _incident(reason, held, incidents, now)


def _given_back(record: Record | None, *, on_probation: bool) -> bool:
    """Of a taint that somebody else took off the record still says why it stands: it comes back."""
    return on_probation or record is None or not record.reasons


def _only_a_drill(state: State, name: str, record: Record) -> bool:
    """By the record, which outlives the drill and its leader; a real fault that joins with less is in its reasons."""
    if record.by != "drill":
        return False
    heard = state.heard.get(name)
    real = (
        {f"{f.level.value} {f.id}" for f in heard.report.faults if f.origin != "drill"} if heard is not None else set()
    )
    return real.isdisjoint(record.reasons)


def _practised(drill: bool) -> str:
    """Ends the id of a drill's notice: the real thing under the same isolation is another one."""
    return "/drill" if drill else ""


def _isolation(node: Node, record: Record, drill: bool) -> Notice:
    name, standing = node.metadata.name, current_want(node)
    assert standing is not None
    return Notice(
        id=f"isolated/{name}/{record.session}{_practised(drill)}",
        event="isolated",
        at=record.since,
        text=f"node {name} is isolated ({standing.value}:{standing.effect}): {'; '.join(record.reasons)}",
        drill=drill,
        node=name,
        taint=f"{standing.value}:{standing.effect}",
        reasons=record.reasons,
    )


def _release(name: str, known: _Isolated, now: Instant) -> Notice:
    return Notice(
        id=f"released/{name}/{known.session}{_practised(known.drill)}",
        event="released",
        at=clock.rfc3339(now.wall),
        text=f"node {name} takes new work again",
        drill=known.drill,
        node=name,
    )


def _recovery(recovery: Recovery) -> Notice | None:
    """What is to be told of a recovery as it stands, None = nothing."""
    meta, spec, status = recovery.metadata, recovery.spec, recovery.status
    overdue = next((c for c in status.conditions if c.type == "Overdue"), None)
    event: Told
    if status.phase in FINISHED_PHASES:
        if (ended := _ENDS.get(status.phase)) is None:
            return None
        event, at = ended, status.times.finished or meta.creation_timestamp
        said = f"{status.phase}{f' after {status.duration}' if status.duration else ''}: {status.message}"
        what = status.phase
    elif overdue is not None and overdue.reason == status.phase:
        event, at, said, what = "overdue", overdue.last_transition_time, overdue.message, status.phase
    else:
        return None
    return Notice(
        id=f"{event}/{meta.namespace}/{meta.name}/{meta.uid}/{what}",
        event=event,
        at=at or "",
        text=f"{spec.unit} (recovery {meta.name}): {said}",
        drill=spec.origin == "drill",
        recovery=meta.key,
        unit=spec.unit,
        phase=status.phase,
        reason=status.reason or None,
        reasons=spec.cause.faults,
        took=status.duration or None,
    )


def _incident(reason: str, held: list[Hold], incidents: tuple[Incident, ...], now: Instant) -> Notice:
    at = clock.rfc3339(now.wall)
    named = tuple(one.id for one in incidents if one.held and (one.kind == "breaker") == (reason == "breaker"))
    return Notice(
        id=f"held/{reason}/{at}",
        event="held",
        at=at,
        text=f"{len(held)} held back ({reason}): {held[0].message}",
        drill=False,
        reason=reason,
        subjects=few(sorted({hold.subject for hold in held})),
        incidents=named,
    )
