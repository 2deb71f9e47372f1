"""Incidents: what many nodes have in common, as one thing with an id, a beginning, members, and what is held for it.

Made anew from each plan's verdicts and refusals, so every leader sees the same ones. Kinds:

domain: nodes of one failure domain (`domains.labels`) that broke within a window; it is believed and acted upon.
code, agent: one fault code, or one agent version, in many domains at once; the detector is suspected and nothing done.
not-ready: more nodes are NotReady at once than can be believed. breaker: too many nodes were isolated at once.
An incident is over when it has no members any more: their taints are off, or what made them members has ended.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from reconciler.core import clock
from reconciler.core.actions import Hold, Incident
from reconciler.core.brakes import Brakes
from reconciler.core.calls import Call
from reconciler.core.events import event
from reconciler.core.judge import Verdict, few
from reconciler.core.state import State
from reconciler.core.taints import MANUAL, ON_PROBATION, current_want, record_of
from shared.model import Instant

LEAST_MEMBERS = 2
_BRAKES = frozenset({"common-cause", "breaker"})

_What = tuple[str, str, str]
"""(kind, cause, why)."""


def incidents(
    state: State, verdicts: Mapping[str, Verdict], brakes: Brakes, holds: Iterable[Hold], now: Instant
) -> tuple[Incident, ...]:
    """All that are open, the oldest first."""
    began = {name: at for name, verdict in verdicts.items() if (at := _began(state, verdict, now)) is not None}
    held: dict[str, set[str]] = defaultdict(set)
    for hold in holds:
        if hold.reason in _BRAKES:
            held[hold.reason].add(hold.subject)
    found = [*_domains(state, brakes, began), *_suspected(verdicts, brakes)]
    if (why := brakes.open()) is not None:
        members = {name for name in began if brakes.counts(name)}
        found.append((("breaker", "breaker", why), members))
    made = (_incident(what, members, began, held, now) for what, members in found if members)
    return tuple(sorted(made, key=lambda one: (one.since, one.id)))


def incident_events(state: State, begun: Iterable[Incident], over: Iterable[Incident], now: Instant) -> Iterator[Call]:
    """One Event for each that has begun or grown, and one at the end, on the member that is first by name. None under
    observe_only."""
    if state.policy.observe_only:
        return
    for one, is_over in (*((one, False) for one in begun), *((one, True) for one in over)):
        known = [state.nodes[name] for name in one.members if name in state.nodes]
        if known:
            meta = known[0].metadata
            reason, kind = ("IncidentOver", "Normal") if is_over else ("Incident", "Warning")
            text = f"incident {one.id} is over: {one.cause}" if is_over else told(one)
            yield event("Node", "", meta.name, meta.uid, reason, text, kind, now)


def told(one: Incident) -> str:
    held = f"; held: {', '.join(few(one.held))}" if one.held else ""
    return f"incident {one.id}: {one.why}. Nodes: {', '.join(few(one.members))}{held}"


def _domains(state: State, brakes: Brakes, began: Mapping[str, float]) -> Iterator[tuple[_What, set[str]]]:
    """Nodes of one domain that broke one after the other, none longer than a window after the one before it. What
    breaks there later, while they are not given back, is part of the same: that domain is still in trouble."""
    by_domain: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, at in began.items():
        if (domain := brakes.domain(name)) != name:
            by_domain[domain].append((at, name))
    window_s = state.policy.common_cause.window_s
    for domain, broken in sorted(by_domain.items()):
        run: list[tuple[float, str]] = []
        members, times = set[str](), 0
        for at, name in (*sorted(broken), (float("inf"), "")):
            if run and at - run[-1][0] > window_s:
                if len(run) >= LEAST_MEMBERS:
                    members |= {member for _, member in run}
                    times += 1
                run = []
            run.append((at, name))
        if members:
            often = "" if times == 1 else f" at {times} times"
            what = f"{len(members)} nodes of {domain} broke together{often}"
            why = f"{what}: one cause is likely, look at what they share"
            yield ("domain", domain, why), members


def _suspected(verdicts: Mapping[str, Verdict], brakes: Brakes) -> Iterator[tuple[_What, set[str]]]:
    found: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for name, verdict in verdicts.items():
        what = brakes.suspect(verdict)
        if verdict.storm:
            why = "more nodes are NotReady at once than can be believed: the view is suspected"
            what = ("not-ready", "NotReady", why)
        if what is not None:
            found.setdefault(what[:2], (what[2], set()))[1].add(name)
    for (kind, cause), (why, members) in sorted(found.items()):
        yield (kind, cause, why), members


def _incident(
    what: _What, members: set[str], began: Mapping[str, float], held: Mapping[str, set[str]], now: Instant
) -> Incident:
    kind, cause, why = what
    since = min([began[name] for name in members if name in began], default=now.wall)
    waiting = held["breaker"] if kind == "breaker" else members & (held["breaker"] | held["common-cause"])
    digest = hashlib.sha256(f"{kind}/{cause}".encode()).hexdigest()[:8]
    name = f"{kind}-{digest}"
    return Incident(name, kind, cause, clock.seconds(since), why, tuple(sorted(members)), tuple(sorted(waiting)))


def _began(state: State, verdict: Verdict, now: Instant) -> float | None:
    """Since when (Unix seconds) the node is broken; None = it is not, or a person's wish or planned work is all.

    By its isolation's record, which outlives leaders; before it is isolated, by its faults and its Ready condition.
    """
    node = state.nodes.get(verdict.node)
    standing = current_want(node) if node is not None else None
    want = verdict.want if verdict.want is not None else None if standing == ON_PROBATION else standing
    if want is None or want.value == MANUAL or verdict.maintenance:
        return _not_ready_since(state, verdict.node, now) if verdict.storm else None
    record = record_of(node) if node is not None and standing not in (None, ON_PROBATION) else None
    since = clock.parse(record.since) if record is not None else None
    if since is None:
        begun = [fault.since for fault in verdict.faults]
        since = max(0.0, min([*begun, _not_ready_since(state, verdict.node, now)]))
    return min(since, now.wall)


def _not_ready_since(state: State, name: str, now: Instant) -> float:
    """Unix seconds; now for a node that is Ready."""
    return now.wall - (now.mono - state.memory.not_ready_since.get(name, now.mono))
