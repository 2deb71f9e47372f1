"""Compares what a policy scenario expects at one instant with what the virtual cluster has come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from console.scenario.common import differs
from console.scenario.policy_format import Expect, RecoveryItem
from console.scenario.virtual import VirtualCluster, covers
from console.scenario.virtual_objects import Object


def failures(expect: Expect, cluster: VirtualCluster) -> list[str]:
    """One text per key that does not hold, expected against actual. Raises NoSuchObject for an unknown node."""
    return [differs(expect.at, key, wanted, found) for key, wanted, found in _differences(expect, cluster)]


def _differences(expect: Expect, cluster: VirtualCluster) -> Iterator[tuple[str, Any, Any]]:
    """(key, expected, actual) of what does not hold."""
    if expect.deleted is not None and expect.deleted != cluster.deleted:
        yield "deleted", expect.deleted, cluster.deleted
    if expect.tainted is not None and expect.tainted != cluster.tainted:
        yield "tainted", expect.tainted, cluster.tainted
    if expect.recoveries is not None and not _same(expect.recoveries, cluster.recoveries):
        yield "recoveries", [_given(item) for item in expect.recoveries], [_summary(r) for r in cluster.recoveries]
    if expect.untouched is not None and expect.untouched is bool(touched := _touched(cluster)):
        yield "untouched", expect.untouched, touched
    for unit, retries in (expect.retries or {}).items():
        if retries not in (left := cluster.retries(unit)).values():
            yield f"retries of {unit}", retries, left
    for subject, word in (expect.why or {}).items():
        holds = cluster.why(subject)
        if word not in {hold.reason for hold in holds}:
            yield f"why of {subject}", word, [f"{hold.reason} ({hold.message})" for hold in holds]
    if missing := [reason for reason in expect.events or () if reason not in cluster.events]:
        yield "events", missing, sorted(set(cluster.events))
    for node, status in (expect.condition or {}).items():
        if status != (actual := cluster.condition(node)):
            yield f"condition of {node}", status, actual


def _touched(cluster: VirtualCluster) -> dict[str, Any]:
    recoveries = [_summary(recovery) for recovery in cluster.recoveries]
    found = {"tainted": cluster.tainted, "deleted": cluster.deleted, "recoveries": recoveries}
    return {key: value for key, value in found.items() if value}


def _given(item: RecoveryItem) -> dict[str, str]:
    return {f: value for f in item.__struct_fields__ if (value := getattr(item, f)) is not None}


def _summary(recovery: Object) -> dict[str, str]:
    spec, status = recovery["spec"], recovery.get("status") or {}
    found = {key: spec.get(key, "") for key in ("unit", "level", "method")}
    return found | {key: status.get(key, "") for key in ("phase", "reason")}


def _fits(item: RecoveryItem, recovery: Object) -> bool:
    found, wanted = _summary(recovery), _given(item)
    unit = wanted.pop("unit", None)
    return (unit is None or covers(unit, found["unit"])) and all(found[key] == value for key, value in wanted.items())


def _same(items: Sequence[RecoveryItem], recoveries: Sequence[Object]) -> bool:
    """Whether each item can be given a recovery of its own and none is left over, in whatever order."""
    if not items:
        return not recoveries
    first, rest = items[0], items[1:]
    return any(
        _fits(first, recovery) and _same(rest, [*recoveries[:i], *recoveries[i + 1 :]])
        for i, recovery in enumerate(recoveries)
    )
