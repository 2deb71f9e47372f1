"""Lets a World's memory follow the clock, before each plan. Deterministic: same world, same `now`, same result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core import clock, older
from reconciler.core.holddown import hold_down_s
from reconciler.core.judge import FIRST_MINUTE_S, judge
from reconciler.core.known import Known
from reconciler.core.objects import Node
from reconciler.core.ration import MINUTE_S, deletes_of_late
from reconciler.core.recovery import Recovery
from reconciler.core.rejections import forget
from reconciler.core.state import Wanted, World
from reconciler.core.taints import ON_PROBATION, current_want, record_of
from reconciler.core.telling import forget_told
from shared.model import Instant

FORGET_NODE_S = 3600.0
"""A node that left the cluster is forgotten so long after its last report: then its Redis key is gone too."""


def advance(world: World, now: Instant, known: Known | None = None) -> None:
    """Let memory follow the clock: since when a node is not ready, a fault is open, an isolation was last wanted.

    known: as in `plan`.
    """
    memory = world.memory
    if world.paused_until is not None and now.wall >= world.paused_until:
        world.paused = world.paused_until = None
    if not world.reports_ok:
        memory.reports_since = None
    elif memory.reports_since is None:
        memory.reports_since = now.mono
    for name in [n for n, said in world.heard.items() if n not in world.nodes and now.mono - said.at > FORGET_NODE_S]:
        del world.heard[name]
    forget(memory, world.pods, now, young=now.mono - world.leader_since < FIRST_MINUTE_S)
    forget_told(memory, world.pods, now.mono)
    if not memory.deletes_counted:
        memory.deletes[:0], memory.deletes_counted = deletes_of_late(world, now), True
    memory.deletes[:] = [at for at in memory.deletes if now.mono - at < MINUTE_S]
    # A quiet node is Ready and not cordoned, and what it asks for has not changed.
    quiet = (known or Known()).quiet
    restless = quiet.sift(world.snapshot(), now)
    nodes = {name: node for name, node in world.nodes.items() if name in restless}
    _since(memory.not_ready_since, {n for n, node in nodes.items() if not node.ready}, now.mono)
    cordoned = {n for n, node in nodes.items() if node.spec.unschedulable}
    _since(memory.cordoned_since, cordoned, now.mono)
    _begun(memory.first_heard, dict(_open(world, now)))
    _begun(memory.ending_since, dict(_ending(world, now)))
    _begun(memory.waiting_since, dict(_waiting(world, now)))
    _remember_wanted(world, nodes, now)
    quiet.keep_asking(memory, now)
    _since(memory.tainted_since, {*_tainted(world, nodes), *quiet.isolated()}, now.mono)


def _tainted(world: World, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Nodes whose taint is as strong as what is asked for: while a weaker one stands, nothing is deleted for it."""
    for name, node in nodes.items():
        standing, asked = current_want(node), world.memory.asking.get(name)
        if standing is not None and standing != ON_PROBATION and (asked is None or standing.rank >= asked.rank):
            yield name


def _open(world: World, now: Instant) -> Iterator[tuple[tuple[str, str], float]]:
    """(node, fault id) of what is open, and since when as far as this leader can tell."""
    for node, said in world.heard.items():
        if not said.report.faults:
            continue
        for fault in said.report.faults:
            yield (node, fault.id), older.begun(world, older.open_s(said.report, fault), now)


def _ending(world: World, now: Instant) -> Iterator[tuple[str, float]]:
    """UIDs of the targets of open recoveries that are terminating, and since when as far as this leader can tell."""
    for recovery in world.recoveries.values():
        if recovery.open:
            for target in recovery.spec.targets:
                pod = world.pods.get(f"{recovery.metadata.namespace}/{target.pod}")
                if pod is not None and pod.metadata.uid == target.uid and pod.terminating:
                    yield target.uid, older.begun(world, older.ending_s(recovery, pod, now), now)


def _waiting(world: World, now: Instant) -> Iterator[tuple[tuple[str, bool], float]]:
    """(UID, bound) of pods that are not Ready, of controllers with a pod-level recovery, and since when as far as this
    leader can tell."""
    single: dict[str, list[Recovery]] = {}
    for recovery in world.recoveries.values():
        if recovery.open and recovery.spec.level == "Pod" and recovery.spec.controller is not None:
            single.setdefault(recovery.spec.controller.uid, []).append(recovery)
    if single:
        for pod in world.pods.values():
            ref = pod.metadata.controller
            if ref is not None and ref.uid in single and not pod.ready:
                age_s = min(older.waiting_s(recovery, pod, now) for recovery in single[ref.uid])
                yield (pod.metadata.uid, bool(pod.node)), older.begun(world, age_s, now)


def _since(table: dict[Any, float], holds: set[Any], at: float) -> None:
    _begun(table, dict.fromkeys(holds, at))


def _begun(table: dict[Any, float], holds: dict[Any, float]) -> None:
    """Keep what holds, since when it was first seen; what does not hold any more is forgotten."""
    for key in [key for key in table if key not in holds]:
        del table[key]
    for key, at in holds.items():
        table.setdefault(key, at)


def _remember_wanted(world: World, nodes: Mapping[str, Node], now: Instant) -> None:
    """An isolation stays until it has not been asked for during the whole hold-down.

    A leader that finds a taint standing takes it for wanted just now, or, when its record says that the hold-down
    runs, for wanted so long ago that the hold-down ends when the record says.
    """
    memory = world.memory
    for name in [name for name in memory.wanted if name not in world.nodes]:
        del memory.wanted[name]
        memory.asking.pop(name, None)
    state = world.snapshot()
    for name, node in nodes.items():
        wanted, record = memory.wanted.get(name), record_of(node)
        hold_s = hold_down_s(world.policy, record)
        if wanted is None:
            wanted = {}
            standing = current_want(node)
            if standing is not None and standing != ON_PROBATION:
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
        for want in [want for want in wanted if want.effect == "NoSchedule" and want.value in verdict.softened]:
            del wanted[want]
        kept: dict[Wanted, float] = {want: at for want, at in wanted.items() if now.mono - at < hold_s + 3600}
        if kept:
            memory.wanted[name] = kept
        else:
            memory.wanted.pop(name, None)
