"""Folds what is seen into the World: objects from watches, reports from agents, outcomes of our own actions, time.

Every function here is deterministic: same world, same input, same result. None reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from reconciler.core.actions import Action, DeletePods, Isolate, Release
from reconciler.core.advance import advance
from reconciler.core.calls import Outcome
from reconciler.core.objects import ConfigMap, Meta, Node, Owner, Pod, Recovery
from reconciler.core.resources import OWNERS, SCHEDULER_CONFIG, WATCHED
from reconciler.core.state import Heard, World
from shared.model import Instant, NodeReport
from shared.names import CONTROL_CONFIGMAP, NAMESPACE

__all__ = ["WATCHED", "advance", "heard", "observe", "outcome", "replace_all"]

_OWNER_KINDS = frozenset(r.kind for r in OWNERS)
_TYPES: dict[str, type[Node] | type[Pod] | type[Recovery] | type[ConfigMap]] = {
    "Node": Node,
    "Pod": Pod,
    "Recovery": Recovery,
    "ConfigMap": ConfigMap,
    "VolcanoSchedulerConfig": ConfigMap,
}
_API_VERSIONS = {r.kind: r.api_version for r in WATCHED}
_LEAN = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds of which a cluster has thousands and whose spec, a whole pod template, decides nothing."""
_NPU_PLUGIN = "volcano-npu"
_KEPT_SESSIONS = 64
"""Retired agent sessions remembered per node; more restarts than this within a report's life do not happen."""

_KEPT_BURIED = 10_000
"""Objects that have gone of late; an answer of ours is overtaken by seconds, not by so many deletions."""


class BadObject(ValueError):
    """An object that the API served and we cannot read; the text names the field."""


def _decode(kind: str, raw: dict[str, Any] | bytes) -> Node | Pod | Recovery | ConfigMap | Owner:
    target: Any = _TYPES.get(kind, Owner)
    try:
        if isinstance(raw, bytes):
            return msgspec.json.decode(raw, type=target)  # type: ignore[no-any-return]
        return msgspec.convert(raw, target)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as exc:
        raise BadObject(f"{kind}: {exc}") from exc


def _named(obj: Any, kind: str) -> Any:
    """Items of a list of built-in kinds carry neither kind nor apiVersion: the row of the kind says both."""
    if isinstance(obj, Owner):
        if not obj.kind:
            obj = msgspec.structs.replace(obj, kind=kind, api_version=_API_VERSIONS.get(kind, ""))
        if kind in _LEAN:
            obj = msgspec.structs.replace(obj, spec={})
    return obj


def _version(meta: Meta) -> int:
    return int(meta.resource_version) if meta.resource_version.isdigit() else 0


def _table(world: World, kind: str) -> tuple[dict[str, Any], bool] | None:
    """The table of a kind and whether it is keyed by UID (else by `namespace/name`)."""
    if kind == "Node":
        return world.nodes, False
    if kind == "Pod":
        return world.pods, False
    if kind == "PodGroup":
        return world.groups, False
    if kind == "Recovery":
        return world.recoveries, False
    if kind in _OWNER_KINDS:
        return world.owners, True
    return None


def observe(world: World, kind: str, change: str, raw: dict[str, Any] | bytes) -> None:
    """Fold one object: change is "set" (added, modified) or "gone". An older version than the one held is ignored.

    Raises BadObject; the world is unchanged then.
    """
    obj = _decode(kind, raw)
    if isinstance(obj, ConfigMap):
        _config(world, kind, None if change == "gone" else obj)
        return
    found = _table(world, kind)
    if found is None:
        return
    table, by_uid = found
    key = obj.metadata.uid if by_uid else obj.metadata.key
    held = table.get(key)
    if held is not None and _version(obj.metadata) < _version(held.metadata):
        return
    if change == "gone":
        table.pop(key, None)
        world.buried[kind, key] = _version(obj.metadata)
        if len(world.buried) > _KEPT_BURIED:
            del world.buried[next(iter(world.buried))]
        return
    if held is None and 0 < _version(obj.metadata) <= world.buried.get((kind, key), 0):
        return  # the answer to a write of ours, overtaken by the watch: nothing would ever show it gone again
    table[key] = _named(obj, kind)


def replace_all(world: World, kind: str, raws: Iterable[dict[str, Any] | bytes]) -> None:
    """After a list: the kind is exactly what the list says. Raises BadObject, the world is unchanged then."""
    objects = [_decode(kind, raw) for raw in raws]
    if _TYPES.get(kind) is ConfigMap:
        _config(world, kind, next((o for o in objects if isinstance(o, ConfigMap)), None))
        return
    found = _table(world, kind)
    if found is None:
        return
    table, by_uid = found
    if kind in _OWNER_KINDS:
        # One table holds all owner kinds: only this kind's rows are replaced.
        for uid in [uid for uid, owner in table.items() if owner.kind == kind]:
            del table[uid]
    else:
        table.clear()
    for obj in objects:
        table[obj.metadata.uid if by_uid else obj.metadata.key] = _named(obj, kind)


def _config(world: World, kind: str, config: ConfigMap | None) -> None:
    data = (config.data or {}) if config is not None else {}
    if kind == SCHEDULER_CONFIG.kind:
        world.npu_scheduler = any(_NPU_PLUGIN in text for text in data.values())
    elif config is None or (config.metadata.namespace, config.metadata.name) == (NAMESPACE, CONTROL_CONFIGMAP):
        world.paused = data.get("paused") or None


def heard(world: World, report: NodeReport, now: Instant) -> str | None:
    """Accept a node's report, or say in one word why not (the reason label of the metric).

    Order is by session and seq alone, never by a clock: within a session seq grows; a session that was replaced
    never returns, so a late writer cannot undo what its successor said.
    """
    node = report.node
    retired = world.retired_sessions.setdefault(node, [])
    if report.session in retired:
        return _rejected(world, "retired-session")
    last = world.heard.get(node)
    if last is not None:
        if last.report.session != report.session:
            retired.append(last.report.session)
            del retired[:-_KEPT_SESSIONS]
        elif report.seq < last.report.seq:
            return _rejected(world, "old-seq")
        elif report.seq == last.report.seq:
            return None  # the sweep reads the same report again: its age goes on from when it was first heard
    world.heard[node] = Heard(report, now.mono)
    return None


def _rejected(world: World, reason: str) -> str:
    world.rejected_reports[reason] = world.rejected_reports.get(reason, 0) + 1
    return reason


def outcome(world: World, action: Action, result: Outcome, now: Instant) -> None:
    """Our own writes and reads-back become visible to the next plan at once, before the watch shows them."""
    for raw in result.seen:
        observe(world, str(raw.get("kind", "")), "set", raw)
    for kind, key, uid in result.gone:
        table = _table(world, kind)
        held = None if table is None else table[0].get(key)
        if table is not None and held is not None and held.metadata.uid == uid:
            del table[0][key]
    if isinstance(action, Isolate) and result.done:
        world.memory.tainted_since.setdefault(action.node.metadata.name, now.mono)
    if isinstance(action, Release) and result.done:
        # The hold-down of what was released is over, or was waived.
        world.memory.wanted.pop(action.node.metadata.name, None)
        world.memory.asking.pop(action.node.metadata.name, None)
    if isinstance(action, DeletePods):
        world.memory.deletes.extend([now.mono] * result.deletes)
