"""Folds what is seen into the World: objects from watches, reports from agents, outcomes of our own actions, time.

Every function here is deterministic: same world, same input, same result. None reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, DeletePods, Isolate, Release, Tell
from reconciler.core.advance import advance
from reconciler.core.calls import Outcome
from reconciler.core.objects import ConfigMap, Meta, Node, Owner, Pod, RingsConfig
from reconciler.core.ranktable import is_rings_config
from reconciler.core.ranktable import read as read_rank_table
from reconciler.core.recovery import Recovery
from reconciler.core.rejections import remember
from reconciler.core.resources import CLUSTERD, OWNERS, RETRY_LEDGER, RINGS_CONFIG, SCHEDULER_CONFIG, SEPARATED, WATCHED
from reconciler.core.state import Heard, World
from reconciler.core.taints import ON_PROBATION
from reconciler.core.telling import note
from reconciler.ranktable.schema import is_published
from shared.model import Instant, NodeReport
from shared.names import CONTROL_CONFIGMAP, NAMESPACE

__all__ = ["WATCHED", "advance", "begun", "heard", "observe", "outcome", "replace_all"]

_OWNER_KINDS = frozenset(r.kind for r in OWNERS)
_TYPES: dict[str, type[Node] | type[Pod] | type[Recovery] | type[ConfigMap] | type[RingsConfig]] = {
    "Node": Node,
    "Pod": Pod,
    "Recovery": Recovery,
    "ConfigMap": ConfigMap,
    "VolcanoSchedulerConfig": ConfigMap,
    "RetryLedger": ConfigMap,
    "SeparatedDies": ConfigMap,
    "RingsConfig": RingsConfig,
}
_API_VERSIONS = {r.kind: r.api_version for r in WATCHED}
_LEAN = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds of which a cluster has thousands and whose spec is a whole pod template, which decides nothing."""
_KEPT_SPEC = ("replicas", "ordinals")
_NPU_PLUGIN = "volcano-npu"
_KEPT_SESSIONS = 64
"""Retired agent sessions remembered per node; more restarts than this within a report's life do not happen."""

PART_OF = "app.kubernetes.io/part-of"

_KEPT_BURIED = 10_000
"""Objects that have gone of late; an answer of ours is overtaken by seconds, not by so many deletions."""


class BadObject(ValueError):
    """An object that the API served and we cannot read; the text names the field."""


def _decode(kind: str, raw: dict[str, Any] | bytes) -> Node | Pod | Recovery | ConfigMap | RingsConfig | Owner:
    target: Any = _TYPES.get(kind, Owner)
    try:
        if isinstance(raw, bytes):
            return msgspec.json.decode(raw, type=target)  # type: ignore[no-any-return]
        return msgspec.convert(raw, target)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as exc:
        raise BadObject(f"{kind}: {exc}") from exc


def _named(obj: Any, kind: str) -> Any:
    """The object as it is kept. Items of a list of built-in kinds carry neither kind nor apiVersion: the row of the
    kind says both."""
    if isinstance(obj, RingsConfig):
        return obj if is_published(obj.metadata.name) else read_rank_table(obj)
    if isinstance(obj, Owner):
        if not obj.kind:
            obj = msgspec.structs.replace(obj, kind=kind, api_version=_API_VERSIONS.get(kind, ""))
        if kind in _LEAN:
            obj = msgspec.structs.replace(obj, spec={key: obj.spec[key] for key in _KEPT_SPEC if key in obj.spec})
    return obj


def _concerns(obj: Any) -> bool:
    """Of the ConfigMaps that carry a job's id only rank tables are kept."""
    name = obj.metadata.name
    return not isinstance(obj, RingsConfig) or is_rings_config(name) or is_published(name)


def is_stand_in(labels: Mapping[str, str], spec: Mapping[str, Any]) -> bool:
    """Whether it is the Service under which the warden itself serves rank tables, in ClusterD's name. One with a
    selector leads to ClusterD's pods: its manifest was applied over ours, which may leave our label."""
    return labels.get(PART_OF) == "npu-warden" and not spec.get("selector")


def _is_clusterds(service: Any) -> bool:
    return not is_stand_in(service.metadata.labels, service.spec)


def _version(meta: Meta) -> int:
    return int(meta.resource_version) if meta.resource_version.isdigit() else 0


def _table(world: World, kind: str, name: str = "") -> tuple[dict[str, Any], bool] | None:
    """The table of a kind and whether it is keyed by UID (else by `namespace/name`). name: of the object."""
    if kind == "Node":
        return world.nodes, False
    if kind == "Pod":
        return world.pods, False
    if kind == "PodGroup":
        return world.groups, False
    if kind == "Recovery":
        return world.recoveries, False
    if kind == RINGS_CONFIG.kind:
        return (world.published if is_published(name) else world.rank_tables), False
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
    if kind == CLUSTERD.kind:
        world.clusterd = change != "gone" and _is_clusterds(obj)
        return
    found = _table(world, kind, obj.metadata.name)
    if found is None or not _concerns(obj):
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
    if isinstance(obj, Pod):
        remember(world.memory, obj)
        note(world.memory, obj)


def replace_all(world: World, kind: str, raws: Iterable[dict[str, Any] | bytes]) -> None:
    """After a list: the kind is exactly what the list says. Raises BadObject, the world is unchanged then."""
    objects = [_decode(kind, raw) for raw in raws]
    if _TYPES.get(kind) is ConfigMap:
        _config(world, kind, next((o for o in objects if isinstance(o, ConfigMap)), None))
        return
    if kind == CLUSTERD.kind:
        world.clusterd = any(_is_clusterds(obj) for obj in objects)
        return
    if kind == RINGS_CONFIG.kind:
        world.published.clear()
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
    for obj in filter(_concerns, objects):
        if kind == RINGS_CONFIG.kind and is_published(obj.metadata.name):
            table = world.published
        elif kind == RINGS_CONFIG.kind:
            table = world.rank_tables
        table[obj.metadata.uid if by_uid else obj.metadata.key] = _named(obj, kind)
        if isinstance(obj, Pod):
            remember(world.memory, obj)


def _config(world: World, kind: str, config: ConfigMap | None) -> None:
    data = (config.data or {}) if config is not None else {}
    if kind == SCHEDULER_CONFIG.kind:
        lines = (line.lstrip() for text in data.values() for line in text.splitlines())
        world.npu_scheduler = any(_NPU_PLUGIN in line for line in lines if not line.startswith("#"))
    elif kind == SEPARATED.kind:
        if config is None or world.separated is None or _version(config.metadata) >= _version(world.separated.metadata):
            world.separated = config
    elif kind == RETRY_LEDGER.kind:
        held = world.ledger
        if config is None or held is None or _version(config.metadata) >= _version(held.metadata):
            world.ledger = config
    elif config is None or (config.metadata.namespace, config.metadata.name) == (NAMESPACE, CONTROL_CONFIGMAP):
        world.paused, world.paused_until = _pause(data.get("paused"), data.get("paused_until"))


def _pause(reason: str | None, until: str | None) -> tuple[str | None, float | None]:
    if not reason or not until:
        return reason or None, None
    ends = clock.parse(until)
    if ends is None:
        return f"{reason} (without end: paused_until {until[:40]!r} is no RFC 3339 time)", None
    return f"{reason} (until {until})", ends


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


def begun(world: World, action: Action) -> None:
    """An action's first call is about to be made. However slow it is, it has its place: in the ration of deletes, among
    the isolations that the breaker counts."""
    if isinstance(action, DeletePods):
        world.memory.deleting[action.key] = len(action.victims)
    if isinstance(action, Isolate) and action.record.by == "warden":
        world.memory.isolating[action.node.metadata.name] = action.record.since


def outcome(world: World, action: Action, result: Outcome, now: Instant) -> None:
    """Our own writes and reads-back become visible to the next plan at once, before the watch shows them."""
    for raw in result.seen:
        observe(world, str(raw.get("kind", "")), "set", raw)
    for kind, key, uid in result.gone:
        table = _table(world, kind)
        held = None if table is None else table[0].get(key)
        if table is not None and held is not None and held.metadata.uid == uid:
            del table[0][key]
    given_back = isinstance(action, Release) or (isinstance(action, Isolate) and action.want == ON_PROBATION)
    if isinstance(action, Isolate) and result.done and not given_back:
        world.memory.tainted_since.setdefault(action.node.metadata.name, now.mono)
    if isinstance(action, (Isolate, Release)) and result.done and given_back:
        # The hold-down of what was released is over, or was waived.
        world.memory.wanted.pop(action.node.metadata.name, None)
        world.memory.asking.pop(action.node.metadata.name, None)
    if isinstance(action, Tell) and result.done and action.pod in world.memory.self_replaced:
        seen = world.memory.self_replaced[action.pod]
        world.memory.self_replaced[action.pod] = replace(seen, told=True)
    if isinstance(action, Isolate) and (result.done or result.reason != "no-answer"):
        world.memory.isolating.pop(action.node.metadata.name, None)
    if isinstance(action, DeletePods):
        world.memory.deleting.pop(action.key, None)
        world.memory.deletes.extend([now.mono] * result.deletes)
