"""What the HTTP API shows, as plain data: pure functions of a state and the plan that was made from it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import msgspec

from reconciler.core import why
from reconciler.core.actions import Action, Hold, Plan
from reconciler.core.judge import Verdict, few, judge
from reconciler.core.objects import Node, Pod, Recovery
from reconciler.core.state import Heard, State
from reconciler.core.taints import current_want, record_of
from reconciler.core.units import Index
from reconciler.workloads import unit_of
from shared.model import Instant

Json = dict[str, Any]

MAX_SIMILAR = 5


def warden(state: State, leader: str, policy_error: str | None) -> Json:
    """What keeps the warden itself from acting, None or False where nothing does.

    paused: the reason a person gave. policy_error: why the newest policy.toml is refused; the one before is in force.
    """
    return {
        "leader": leader,
        "paused": state.paused,
        "observe_only": state.policy.observe_only,
        "policy_error": policy_error,
    }


def node(state: State, name: str, now: Instant) -> Json:
    """One node: verdict, isolation, age of its report, all open faults. A name that only a report knows is shown too.

    released: ids of the open faults in spite of which a person has given the node back.
    """
    known, heard, verdict = state.nodes.get(name), state.heard.get(name), judge(state, name, now)
    standing = current_want(known) if known else None
    report = heard.report if heard else None
    released = _released(known, heard)
    reasons = list(verdict.reasons)
    if released:
        reasons.append(f"released by hand in spite of {', '.join(few(released))}")
    return {
        "name": name,
        "verdict": _word(verdict, known, released),
        "ready": known.ready if known else None,
        "taint": {"value": standing.value, "effect": standing.effect} if standing else None,
        "reasons": reasons,
        "report_age_s": round(now.mono - heard.at, 3) if heard else None,
        "agent": msgspec.to_builtins(report.agent) if report else None,
        "chips": len(report.chips) if report else None,
        "faults": [msgspec.to_builtins(fault) for fault in report.faults] if report else [],
        "released": released,
        "unknown": [msgspec.to_builtins(item) for item in report.unknown] if report else [],
    }


def nodes(state: State, now: Instant) -> list[Json]:
    """Every node of the cluster, by name."""
    return [node(state, name, now) for name in sorted(state.nodes)]


def _released(known: Node | None, heard: Heard | None) -> list[str]:
    record = record_of(known) if known else None
    return [fault.id for fault in heard.report.faults if fault.id in record.released] if record and heard else []


def _word(verdict: Verdict, known: Node | None, released: list[str]) -> str:
    """dead | fault | unknown | released | ok: what cannot be seen, or was only forgiven, is never ok."""
    if verdict.dead or (known is None and verdict.silent):
        return "dead"
    if verdict.want is not None:
        return "fault"
    if verdict.blind:
        return "unknown"
    return "released" if released else "ok"


def faults(state: State) -> list[Json]:
    """Every open fault of every node, by node."""
    return [
        {"node": name, **msgspec.to_builtins(fault)}
        for name in sorted(state.heard)
        for fault in state.heard[name].report.faults
    ]


def recovery(item: Recovery) -> Json:
    """A Recovery as the API server has it, without the bookkeeping of its metadata."""
    meta = item.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "created": meta.creation_timestamp,
        "spec": msgspec.to_builtins(item.spec),
        "status": msgspec.to_builtins(item.status),
    }


def recoveries(state: State) -> list[Json]:
    """All of them, the newest first."""
    items = state.recoveries.values()
    return [recovery(r) for r in sorted(items, key=lambda r: r.metadata.creation_timestamp or "", reverse=True)]


def plan(newest: Plan, now: Instant) -> Json:
    """What would be done now, and everything that is refused."""
    return {
        "actions": [action(item) for item in newest.actions],
        "holds": [msgspec.to_builtins(hold) for hold in newest.holds],
        "wake_in_s": None if newest.wake_at is None else round(newest.wake_at - now.mono, 3),
    }


def action(item: Action) -> Json:
    """An action by its key and its own fields; the objects it was decided on are named, not repeated."""
    shown: Json = {"kind": type(item).__name__, "key": item.key}
    for field in fields(item):
        value = getattr(item, field.name)
        if not isinstance(value, (Node, Recovery)):
            shown[field.name] = msgspec.to_builtins(value)
    return shown


def why_node(state: State, newest: Plan, name: str, now: Instant) -> Json | None:
    """None: neither the cluster nor any agent knows this node."""
    if name not in state.nodes and name not in state.heard:
        return None
    concerned = [
        r
        for r in state.recoveries.values()
        if name in r.spec.cause.nodes or any(target.node == name for target in r.spec.targets)
    ]
    return {
        "subject": name,
        "verdicts": _holds(state, newest, lambda subject: subject in (name, f"Node/{name}")),
        "node": node(state, name, now),
        "recoveries": [recovery(r) for r in concerned],
    }


def why_pod(state: State, newest: Plan, key: str, now: Instant) -> Json | None:
    """None: there is no such pod. `key` is namespace/name."""
    pod = state.pods.get(key)
    if pod is None:
        return None
    unit = unit_of(pod, Index(state)).id
    found = _why_units(state, newest, lambda subject: subject in (unit, key))
    return {"subject": key, "unit": unit, **found, "node": node(state, pod.node, now) if pod.node else None}


def why_workload(state: State, newest: Plan, key: str) -> Json | None:
    """None: no pod and no recovery belongs to it. `key` is namespace/name, or a unit's whole id."""
    index = Index(state)

    def of_workload(unit: str) -> bool:
        return unit == key or unit.startswith(f"{key}/")

    members = [p for p in _pods_in(state, key.partition("/")[0]) if of_workload(unit_of(p, index).id)]
    found = _why_units(state, newest, of_workload)
    if not members and not found["recoveries"] and not found["verdicts"]:
        return None
    units = sorted({unit_of(pod, index).id for pod in members})
    return {"subject": key, "units": units, "pods": sorted(pod.metadata.key for pod in members), **found}


def _pods_in(state: State, namespace: str) -> Iterator[Pod]:
    return (pod for pod in state.pods.values() if pod.metadata.namespace == namespace)


def _why_units(state: State, newest: Plan, concerns: Any) -> Json:
    return {
        "verdicts": _holds(state, newest, concerns),
        "recoveries": [recovery(r) for r in state.recoveries.values() if concerns(r.spec.unit)],
    }


def _holds(state: State, newest: Plan, concerns: Any) -> list[Json]:
    found: list[Hold] = []
    for subject, holds in why.verdicts(state, newest).items():
        if concerns(subject):
            found += holds
    return [msgspec.to_builtins(hold) for hold in found]


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
