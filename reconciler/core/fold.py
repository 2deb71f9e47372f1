"""Folds what is seen into the World: objects from watches, reports from agents, outcomes of our own actions, time.

Every function here is deterministic: same world, same input, same result. None reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, DeletePods, Isolate, Release
from reconciler.core.calls import Outcome
from reconciler.core.judge import judge
from reconciler.core.objects import ConfigMap, Meta, Node, Owner, Pod, Recovery
from reconciler.core.resources import OWNERS, WATCHED
from reconciler.core.state import Heard, Wanted, World
from reconciler.core.taints import current_want, record_of
from shared.model import Instant, NodeReport
from shared.names import CONTROL_CONFIGMAP, NAMESPACE

__all__ = ["WATCHED", "advance", "heard", "observe", "outcome", "replace_all"]

_OWNER_KINDS = frozenset(r.kind for r in OWNERS)
_TYPES: dict[str, type[Node] | type[Pod] | type[Recovery] | type[ConfigMap]] = {
    "Node": Node,
    "Pod": Pod,
    "Recovery": Recovery,
    "ConfigMap": ConfigMap,
}
_API_VERSIONS = {r.kind: r.api_version for r in WATCHED}
_LEAN = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds of which a cluster has thousands and whose spec, a whole pod template, decides nothing."""
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
        _control(world, None if change == "gone" else obj)
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
    if kind == "ConfigMap":
        _control(world, next((o for o in objects if isinstance(o, ConfigMap)), None))
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


def _control(world: World, config: ConfigMap | None) -> None:
    if config is not None and (config.metadata.namespace, config.metadata.name) != (NAMESPACE, CONTROL_CONFIGMAP):
        return
    world.paused = ((config.data or {}).get("paused") or None) if config else None


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


def advance(world: World, now: Instant) -> None:
    """Let memory follow the clock: since when a node is not ready, a fault is open, an isolation was last wanted."""
    memory = world.memory
    if not world.reports_ok:
        memory.reports_since = None
    elif memory.reports_since is None:
        memory.reports_since = now.mono
    memory.deletes[:] = [at for at in memory.deletes if now.mono - at < 60]
    _since(memory.not_ready_since, {n for n, node in world.nodes.items() if not node.ready}, now.mono)
    _since(memory.tainted_since, {n for n, node in world.nodes.items() if current_want(node)}, now.mono)
    _since(
        memory.first_heard,
        {(node, fault.id) for node, said in world.heard.items() for fault in said.report.faults},
        now.mono,
    )
    _since(memory.ending_since, set(_ending(world)), now.mono)
    _since(memory.waiting_since, set(_waiting(world)), now.mono)
    _remember_wanted(world, now)


def _ending(world: World) -> Iterator[str]:
    """UIDs of the targets of open recoveries that are terminating."""
    for recovery in world.recoveries.values():
        if recovery.open:
            for target in recovery.spec.targets:
                pod = world.pods.get(f"{recovery.metadata.namespace}/{target.pod}")
                if pod is not None and pod.metadata.uid == target.uid and pod.terminating:
                    yield target.uid


def _waiting(world: World) -> Iterator[tuple[str, bool]]:
    """(UID, bound) of pods that are not Ready, of controllers with a pod-level recovery."""
    single = [r.spec.controller for r in world.recoveries.values() if r.open and r.spec.level == "Pod"]
    controllers = {controller.uid for controller in single if controller is not None}
    if controllers:
        for pod in world.pods.values():
            ref = pod.metadata.controller
            if ref is not None and ref.uid in controllers and not pod.ready:
                yield pod.metadata.uid, bool(pod.node)


def _since(table: dict[Any, float], holds: set[Any], at: float) -> None:
    for key in [key for key in table if key not in holds]:
        del table[key]
    for key in holds:
        table.setdefault(key, at)


def _remember_wanted(world: World, now: Instant) -> None:
    """An isolation stays until it has not been asked for during the whole hold-down.

    A leader that finds a taint standing takes it for wanted just now, or, when its record says that the hold-down
    runs, for wanted so long ago that the hold-down ends when the record says.
    """
    memory, hold_s = world.memory, world.policy.isolate.hold_down_s
    for name in [name for name in memory.wanted if name not in world.nodes]:
        del memory.wanted[name]
        memory.asking.pop(name, None)
    state = world.snapshot()
    for name, node in world.nodes.items():
        wanted = memory.wanted.get(name)
        if wanted is None:
            wanted = {}
            standing = current_want(node)
            if standing is not None:
                record = record_of(node)
                until = clock.parse(record.hold_until) if record and record.hold_until else None
                left = hold_s if until is None else min(hold_s, max(0.0, until - now.wall))
                wanted[standing] = now.mono - (hold_s - left)
        verdict = judge(state, name, now)
        if (asked := memory.asking.pop(name, None)) is not None:
            wanted[asked] = now.mono  # it was asked for until this moment, however long ago the last plan was
        if verdict.want is not None:
            wanted[verdict.want] = now.mono
            memory.asking[name] = verdict.want
        elif verdict.blind:
            for want in wanted:
                wanted[want] = now.mono  # who cannot be seen has not healed
        kept: dict[Wanted, float] = {want: at for want, at in wanted.items() if now.mono - at < hold_s + 3600}
        if kept:
            memory.wanted[name] = kept
        else:
            memory.wanted.pop(name, None)
