"""Node actions: taint what must not take new work, keep it, give it back; tell the node's condition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, Hold, Isolate, KeepRecord, Release, SetCondition
from reconciler.core.brakes import Brakes
from reconciler.core.judge import Verdict, condition_of
from reconciler.core.objects import Node
from reconciler.core.state import Record, State, Wanted
from reconciler.core.taints import current_want, record_of
from shared.model import Instant
from shared.names import CONDITION, RELEASE_ANNOTATION, TAINT_KEY


def plan_node(
    state: State, verdict: Verdict, node: Node, brakes: Brakes, now: Instant, alarm: clock.Alarm
) -> Iterator[Action | Hold]:
    """What this node needs now: at most one action on its taint, then at most one on its condition.

    The taint first: it is written under the node's resourceVersion, which the condition would move on.
    """
    yield from _taint(state, verdict, node, brakes, now, alarm)
    yield from _condition(state, verdict, node)


def _taint(
    state: State, verdict: Verdict, node: Node, brakes: Brakes, now: Instant, alarm: clock.Alarm
) -> Iterator[Action | Hold]:
    if verdict.storm:
        yield Hold(verdict.node, "common-cause", "NotReady, but so are too many nodes at once: the view is suspect")
    if RELEASE_ANNOTATION in node.metadata.annotations:
        yield _released_by_hand(state, verdict, node, now)
        return
    if verdict.opted_out:
        if verdict.reasons:
            yield Hold(verdict.node, "opt-out", f"left alone by its label; open: {'; '.join(verdict.reasons)}")
        return
    standing, due = current_want(node), _due(state, verdict, now, alarm)
    if due is not None:
        yield from _isolate(state, verdict, node, standing, due, brakes, now)
    elif standing is not None and not verdict.blind:
        yield Release(node, f"healed for {state.policy.isolate.hold_down_s:.0f} s", _forgiving(state, verdict, node))
    elif standing is None and not verdict.blind:
        record, left = record_of(node), _forgiving(state, verdict, node)
        if record is not None and record != left:
            yield KeepRecord(node, left)


def _released_by_hand(state: State, verdict: Verdict, node: Node, now: Instant) -> Release:
    """A person gives the node back: no hold-down, and what is open now does not isolate it again."""
    heard = state.heard.get(verdict.node)
    open_now = tuple(sorted(fault.id for fault in heard.report.faults)) if heard else ()
    record = None
    if open_now:
        session = _session(verdict.node, node.metadata.uid, now)
        record = Record(session, clock.rfc3339(now.wall), "operator", released=open_now)
    why = f"released by hand: {node.metadata.annotations[RELEASE_ANNOTATION]}"
    return Release(node, why, record, by_hand=True)


def _forgiving(state: State, verdict: Verdict, node: Node) -> Record | None:
    """What the record must still say once nothing isolates the node: the forgiven faults that are still open."""
    record, heard = record_of(node), state.heard.get(verdict.node)
    if record is None or heard is None:
        return record
    still = tuple(fault.id for fault in heard.report.faults if fault.id in record.released)
    return msgspec.structs.replace(record, released=still, reasons=(), hold_until=None) if still else None


def _isolate(
    state: State, verdict: Verdict, node: Node, standing: Wanted | None, due: Wanted, brakes: Brakes, now: Instant
) -> Iterator[Action | Hold]:
    record = record_of(node)
    name = verdict.node
    hold_until = None
    if verdict.want is None and not verdict.blind:
        ends = state.memory.wanted[name][due] + state.policy.isolate.hold_down_s
        hold_until = clock.seconds(now.wall + ends - now.mono)
        yield Hold(name, "healed", f"hold-down: released in {ends - now.mono:.0f} s if it stays healthy")
    elif verdict.blind and verdict.want is None:
        yield Hold(name, "stale-report", "isolated, and its agent cannot be heard: unknown is not healed")
    reasons = verdict.reasons or (record.reasons if record else ())
    if standing != due:
        if state.paused:
            yield Hold(name, "paused", f"would taint {due.value}:{due.effect}; {state.paused}")
            return
        if standing is None and (braked := brakes.isolation(verdict)) is not None:
            yield Hold(name, *braked)
            return
        fresh = record is None or standing is None
        session = _session(name, node.metadata.uid, now) if fresh or record is None else record.session
        since = clock.rfc3339(now.wall) if fresh or record is None else record.since
        yield Isolate(node, due, Record(session, since, "warden", reasons, released=record.released if record else ()))
        return
    wanted = Record(
        session=record.session if record else _session(name, node.metadata.uid, now),
        since=record.since if record else clock.rfc3339(now.wall),
        by=record.by if record else "warden",
        reasons=reasons,
        hold_until=record.hold_until if hold_until and record and record.hold_until else hold_until,
        released=record.released if record else (),
    )
    if wanted != record:
        yield KeepRecord(node, wanted)


def _session(name: str, uid: str, now: Instant) -> str:
    """Id of one isolation. Derived, not drawn: planning twice on one snapshot gives one answer."""
    return hashlib.sha256(f"{name}/{uid}/{now.wall:.3f}".encode()).hexdigest()[:16]


def _due(state: State, verdict: Verdict, now: Instant, alarm: clock.Alarm) -> Wanted | None:
    """The strongest isolation that was wanted within the hold-down; wakes the planner when that changes."""
    hold_s = state.policy.isolate.hold_down_s
    live = [verdict.want] if verdict.want else []
    for wanted, at in state.memory.wanted.get(verdict.node, {}).items():
        if now.mono - at < hold_s:
            live.append(wanted)
            alarm.ring(at + hold_s)
    return max(live, key=lambda wanted: wanted.rank, default=None)


def _condition(state: State, verdict: Verdict, node: Node) -> Iterator[Action]:
    wanted = condition_of(verdict, state.heard.get(verdict.node))
    if wanted is None or (verdict.silent and verdict.node not in state.heard and not _is_npu_node(node)):
        return
    held = node.condition(CONDITION)
    if held is None or (held.status, held.reason, held.message) != wanted:
        yield SetCondition(node, *wanted)


def _is_npu_node(node: Node) -> bool:
    if node.taint(TAINT_KEY) is not None:
        return True
    return any(name.startswith("huawei.com/") for name in (*node.status.capacity, *node.status.allocatable))
