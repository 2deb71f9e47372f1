"""What the HTTP API shows: pure functions of a state and the plan that was made from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import msgspec

from reconciler.answers import (
    NodeAnswer,
    NodeVerdict,
    OfferedNpus,
    OpenFault,
    PlanAnswer,
    RecoveryAnswer,
    StandingTaint,
    Warden,
    Why,
)
from reconciler.core import devices, why
from reconciler.core.actions import Action, Hold, Plan
from reconciler.core.chain_units import about_node, about_pods, about_unit
from reconciler.core.coverage import Covered
from reconciler.core.coverage import coverage as covered
from reconciler.core.judge import Verdict, few, judge
from reconciler.core.objects import Node, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.state import Heard, State
from reconciler.core.taints import current_want, record_of
from reconciler.core.units import Index
from reconciler.workloads import unit_of
from shared.model import Fault, Instant

MAX_SIMILAR = 5


def warden(state: State, leader: str, policy_error: str | None) -> Warden:
    return Warden(leader, state.paused, state.policy.observe_only, policy_error, state.reports_ok, state.watch_ok)


def node(state: State, name: str, now: Instant) -> NodeAnswer:
    """One node. A name that only a report knows is shown too."""
    known, heard, verdict = state.nodes.get(name), state.heard.get(name), judge(state, name, now)
    standing = current_want(known) if known else None
    report = heard.report if heard else None
    released = _released(known, heard)
    reasons = list(verdict.reasons)
    if released:
        reasons.append(f"released by hand in spite of {', '.join(few(released))}")
    npus = _npus(known)
    if npus is not None and npus.offered < npus.present:
        reasons.append(f"the device plugin offers {npus.offered} of {npus.present} NPUs")
    return NodeAnswer(
        name=name,
        verdict=_word(verdict, known, released),
        ready=known.ready if known else None,
        taint=StandingTaint(standing.value, standing.effect) if standing else None,
        reasons=reasons,
        report_age_s=round(now.mono - heard.at, 3) if heard else None,
        agent=report.agent if report else None,
        chips=len(report.chips) if report else None,
        npus=npus,
        faults=report.faults if report else (),
        released=released,
        unknown=report.unknown if report else (),
    )


def nodes(state: State, now: Instant, verdict: str | None = None) -> Iterator[NodeAnswer]:
    """Every node of the cluster (with this verdict), by name."""
    shown = (node(state, name, now) for name in sorted(state.nodes))
    return (one for one in shown if verdict in (None, one.verdict))


def _npus(known: Node | None) -> OfferedNpus | None:
    if known is None or not devices.is_npu_node(known):
        return None
    return OfferedNpus(devices.offered(known), devices.present(known))


def _released(known: Node | None, heard: Heard | None) -> list[str]:
    record = record_of(known) if known else None
    return [fault.id for fault in heard.report.faults if fault.id in record.released] if record and heard else []


def _word(verdict: Verdict, known: Node | None, released: list[str]) -> NodeVerdict:
    """dead | fault | unknown | released | ok: what cannot be seen, or was only forgiven, is never ok."""
    if verdict.dead or (known is None and verdict.silent):
        return "dead"
    if verdict.want is not None:
        return "fault"
    if verdict.blind:
        return "unknown"
    return "released" if released else "ok"


def faults(
    state: State, node: str | None = None, level: str | None = None, code: str | None = None
) -> Iterator[OpenFault]:
    """Every open fault (of this node, level, code), by node and id."""
    for name in sorted(state.heard) if node is None else [node] if node in state.heard else []:
        for fault in sorted(state.heard[name].report.faults, key=lambda fault: fault.id):
            if level in (None, fault.level.value) and code in (None, fault.code):
                yield open_fault(name, fault)


def open_fault(node: str, fault: Fault) -> OpenFault:
    return OpenFault(node=node, **msgspec.structs.asdict(fault))


def recovery(item: Recovery) -> RecoveryAnswer:
    meta = item.metadata
    return RecoveryAnswer(meta.namespace, meta.name, meta.creation_timestamp, item.spec, item.status)


def recovery_key(item: RecoveryAnswer) -> tuple[str, ...]:
    return item.created or "", item.namespace, item.name


def recoveries(
    state: State, namespace: str | None = None, phase: str | None = None, *, is_open: bool | None = None
) -> list[RecoveryAnswer]:
    """All of them (of this namespace, in this phase, open or not), the newest first."""
    found = [
        recovery(one)
        for one in state.recoveries.values()
        if namespace in (None, one.metadata.namespace)
        and phase in (None, one.status.phase)
        and is_open in (None, one.open)
    ]
    return sorted(found, key=recovery_key, reverse=True)


def plan(newest: Plan, now: Instant) -> PlanAnswer:
    wake_in_s = None if newest.wake_at is None else round(newest.wake_at - now.mono, 3)
    return PlanAnswer([action(item) for item in newest.actions], newest.holds, wake_in_s)


def action(item: Action) -> dict[str, Any]:
    """An action by its key and its own fields; the objects it was decided on are named, not repeated."""
    shown: dict[str, Any] = {"kind": type(item).__name__, "key": item.key}
    for field in fields(item):
        value = getattr(item, field.name)
        if not isinstance(value, (Node, Recovery)):
            shown[field.name] = msgspec.to_builtins(value)
    return shown


def why_node(state: State, newest: Plan, name: str, now: Instant) -> Why | None:
    """None: neither the cluster nor any agent knows this node."""
    if name not in state.nodes and name not in state.heard:
        return None
    concerned = [
        recovery(r)
        for r in state.recoveries.values()
        if name in r.spec.cause.nodes or any(target.node == name for target in r.spec.targets)
    ]
    holds = _holds(state, newest, lambda subject: subject in (name, f"Node/{name}"))
    chain = about_node(state, newest, name, now)
    return Why(name, chain, holds, concerned, node=node(state, name, now))


def why_pod(state: State, newest: Plan, key: str, now: Instant) -> Why | None:
    """None: there is no such pod. `key` is namespace/name."""
    pod = state.pods.get(key)
    if pod is None:
        return None
    unit = unit_of(pod, Index(state)).id

    def concerns(subject: str) -> bool:
        return subject in (unit, key)

    return Why(
        key,
        about_pods(state, newest, [pod], now),
        _holds(state, newest, concerns),
        _recoveries_of(state, concerns),
        node=node(state, pod.node, now) if pod.node else None,
        unit=unit,
    )


def why_workload(state: State, newest: Plan, key: str, now: Instant) -> Why | None:
    """None: no pod and no recovery belongs to it. `key` is namespace/name, or a unit's whole id."""
    index = Index(state)

    def of_workload(unit: str) -> bool:
        return unit == key or unit.startswith(f"{key}/")

    members = [p for p in _pods_in(state, key.partition("/")[0]) if of_workload(unit_of(p, index).id)]
    holds, found = _holds(state, newest, of_workload), _recoveries_of(state, of_workload)
    if not members and not found and not holds:
        return None
    units = sorted({unit_of(pod, index).id for pod in members})
    chain = about_pods(state, newest, members, now)
    for unit in sorted({item.spec.unit for item in found} - set(units)):
        chain += about_unit(state, newest, unit, now)
    return Why(key, chain, holds, found, units=units, pods=sorted(pod.metadata.key for pod in members))


def _pods_in(state: State, namespace: str) -> Iterator[Pod]:
    return (pod for pod in state.pods.values() if pod.metadata.namespace == namespace)


def _recoveries_of(state: State, concerns: Callable[[str], bool]) -> list[RecoveryAnswer]:
    return [recovery(r) for r in state.recoveries.values() if concerns(r.spec.unit)]


def _holds(state: State, newest: Plan, concerns: Callable[[str], bool]) -> list[Hold]:
    found: list[Hold] = []
    for subject, holds in why.verdicts(state, newest).items():
        if concerns(subject):
            found += holds
    return found


def coverage(state: State, now: Instant, namespace: str | None, *, gaps_only: bool) -> list[Covered]:
    """Every workload with NPUs, whether a fault of it would be handled, and what it lacks."""
    rows = covered(state, now, namespace=namespace)
    return [row for row in rows if row.gaps or not gaps_only]


def similar(state: State, asked: str) -> list[str]:
    """Nodes, pods and units that a person may have meant by a name that is none of them, a few of them."""
    index = Index(state)
    units = {unit_of(pod, index).id for pod in state.pods.values()} | {r.spec.unit for r in state.recoveries.values()}
    known = sorted({*state.nodes, *state.pods, *units} - {asked})
    last = asked.rstrip("/").rpartition("/")[2]
    for text in (asked, last):
        if text and (found := [name for name in known if text in name]):
            return found[:MAX_SIMILAR]
    return difflib.get_close_matches(asked, known, MAX_SIMILAR)
