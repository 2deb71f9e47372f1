"""The chain of evidence about units: what restarts together, what was decided, what is waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.core import clock
from reconciler.core.actions import Plan
from reconciler.core.chain import Link, decisions, of_node
from reconciler.core.judge import few
from reconciler.core.next_steps import next_of_reason, next_of_recovery
from reconciler.core.objects import Pod
from reconciler.core.recovery import Recovery, Times
from reconciler.core.state import State
from reconciler.core.units import FAULT_SCHEDULING, Index, NoUnit, Unit, label_values
from reconciler.workloads import unit_of
from shared.model import Instant

MAX_UNITS = 20
"""More on one node are counted, not told."""


def about_node(state: State, plan: Plan, name: str, now: Instant) -> list[Link]:
    """The node, and where something is wrong with it the units that have pods on it."""
    index = Index(state)
    links = list(of_node(state, plan, name, now))
    concerned = [r for r in state.recoveries.values() if r.open and _touches(r, name)]
    if any(link.step in ("finding", "decision") for link in links) or concerned:
        pods = [pod for pod in index.by_node.get(name, ()) if pod.npus]
        links += _of_pods(state, plan, pods, index, now)
    return links


def about_pods(state: State, plan: Plan, pods: Sequence[Pod], now: Instant) -> list[Link]:
    """The nodes of these pods that have something to tell, then their units."""
    links: list[Link] = []
    for name in sorted({pod.node for pod in pods if pod.node}):
        of_one = list(of_node(state, plan, name, now))
        if len(pods) == 1 or any(link.step in ("finding", "decision") for link in of_one):
            links += of_one
    return links + list(_of_pods(state, plan, pods, Index(state), now))


def about_unit(state: State, plan: Plan, unit: str, now: Instant) -> list[Link]:
    """A unit without pods: only what its recoveries and refusals say."""
    return [*_recoveries(state, plan, unit, now), *decisions(plan, (unit,))]


def _touches(recovery: Recovery, node: str) -> bool:
    return node in recovery.spec.cause.nodes or any(target.node == node for target in recovery.spec.targets)


def _of_pods(state: State, plan: Plan, pods: Sequence[Pod], index: Index, now: Instant) -> Iterator[Link]:
    found: dict[str, Unit | NoUnit] = {}
    for pod in pods:
        unit = unit_of(pod, index)
        found.setdefault(unit.key if isinstance(unit, Unit) else unit.id, unit)
    for key, unit in sorted(found.items())[:MAX_UNITS]:
        yield from _unit(state, plan, key, unit, index, now)
    if len(found) > MAX_UNITS:
        yield Link("unit", f"{len(found)} units", f"only the first {MAX_UNITS} are told; ask for a workload")


def _unit(state: State, plan: Plan, key: str, unit: Unit | NoUnit, index: Index, now: Instant) -> Iterator[Link]:
    if isinstance(unit, NoUnit):
        yield Link("unit", unit.id, f"belongs to no unit: {unit.message}", reason=unit.reason)
        if (ends := next_of_reason(unit.reason)) is not None:
            yield Link("next", unit.id, ends, reason=unit.reason)
        yield from decisions(plan, (unit.id,))
        return
    names = sorted(pod.metadata.name for pod in unit.pods)
    values = sorted(label_values(unit, index, FAULT_SCHEDULING))
    asked = f"{FAULT_SCHEDULING}: {', '.join(values)}" if values else f"no {FAULT_SCHEDULING}"
    says = f"{unit.workload.kind}, level {unit.level}, {asked}: {', '.join(few(names))} restart together"
    yield Link("unit", unit.id, says)
    yield from _recoveries(state, plan, unit.id, now)
    subjects = {unit.id, key, *(pod.metadata.key for pod in unit.pods)}
    yield from decisions(plan, subjects)


def _recoveries(state: State, plan: Plan, unit: str, now: Instant) -> Iterator[Link]:
    mine = [r for r in state.recoveries.values() if r.spec.unit == unit]
    mine.sort(key=lambda r: (r.open, r.metadata.creation_timestamp or "", r.metadata.name))
    for recovery in mine[-1:] if not any(r.open for r in mine) else [r for r in mine if r.open]:
        status = recovery.status
        cause = ", ".join((*recovery.spec.cause.faults, *recovery.spec.cause.nodes)[:1]) or recovery.spec.cause.kind
        told = ": ".join(text for text in (status.reason, status.message) if text)
        says = f"recovery {recovery.metadata.name} for {cause}: {status.phase}{f' ({told})' if told else ''}"
        yield Link("decision", unit, says, at=_last(status.times), reason=status.reason)
        yield from decisions(plan, (f"Recovery/{recovery.metadata.key}",))
        what, since, wait_s = next_of_recovery(recovery, state.policy)
        began = clock.parse(since)
        due = None if began is None or wait_s is None else round(began + wait_s - now.wall, 3)
        yield Link("next", unit, what, due_in_s=due)


def _last(times: Times) -> str | None:
    known = [text for name in Times.__struct_fields__ if (text := getattr(times, name))]
    return max(known, default=None)
