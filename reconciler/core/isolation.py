"""Node actions: taint what must not take new work, keep it, give it back; tell the node's condition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from reconciler.core import clock, devices, drills, holddown
from reconciler.core.actions import Action, Hold, Isolate, KeepOffered, KeepRecord, Release, SetCondition
from reconciler.core.brakes import Brakes
from reconciler.core.judge import Verdict, condition_of
from reconciler.core.objects import Node
from reconciler.core.rejections import CODE as REJECTS_PODS
from reconciler.core.state import Record, State, Wanted
from reconciler.core.taints import MANUAL, NODE_DEAD, ON_PROBATION, current_want, record_of
from shared.model import FaultLevel, Instant
from shared.names import CONDITION, RELEASE_ANNOTATION

SILENCE_IS_NOT_DEATH = "silence is not death, taints and pods stay as they are"
_AS_IT_IS = "if they are gone for good, `npu-warden release NODE` takes the node as it is"


def plan_node(
    state: State, verdict: Verdict, node: Node, brakes: Brakes, now: Instant, alarm: clock.Alarm
) -> Iterator[Action | Hold]:
    """What this node needs now: at most one action on its taint, then at most one on its condition.

    The taint first: it is written under the node's resourceVersion, which the condition would move on.
    """
    for fault in verdict.observed:
        rule = state.policy.rule(fault.level)
        would = f"{fault.id} ({fault.level.value}): taint {rule.taint}, pods {rule.reschedule}"
        whose = "a shadow drill" if drills.shadow(fault) else "by policy"
        yield Hold(verdict.node, "observe-only", f"{whose} only watched: {would}")
    if verdict.silenced_by:
        text = f"drill {verdict.silenced_by} keeps its agent silent: {SILENCE_IS_NOT_DEATH}"
        yield Hold(verdict.node, "stale-report", text)
    yield from _taint(state, verdict, node, brakes, now, alarm)
    yield from _condition(state, verdict, node)
    if (most := devices.new_history(node)) is not None:
        yield KeepOffered(node, most)


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
        yield _give_back(state, verdict, node, standing, now, alarm)
    elif standing is None and not verdict.blind:
        record, left = record_of(node), _forgiving(state, verdict, node)
        if record is not None and record != left:
            yield KeepRecord(node, left)


def _released_by_hand(state: State, verdict: Verdict, node: Node, now: Instant) -> Release:
    """A person gives the node back: no hold-down, and what is open now does not isolate it again."""
    open_now = tuple(sorted(_open_ids(state, verdict, node)))
    record = None
    if open_now:
        session = _session(verdict.node, node.metadata.uid, now)
        record = Record(session, clock.rfc3339(now.wall), "operator", released=open_now)
    why = f"released by hand: {node.metadata.annotations[RELEASE_ANNOTATION]}"
    return Release(node, why, record, by_hand=True)


def _open_ids(state: State, verdict: Verdict, node: Node) -> list[str]:
    """What a person's release of the node forgives: whatever isolates it now.

    Its open faults, its dies that are listed as separated, that it is dead, that its kubelet turns pods away.
    """
    heard, record = state.heard.get(verdict.node), record_of(node)
    found = [fault.id for fault in heard.report.faults] if heard is not None else []
    found += [one.id for one in state.separations.get(verdict.node, ())]
    forgiven_before = record is not None and NODE_DEAD in record.released and not node.ready
    if verdict.dead or forgiven_before:
        found.append(NODE_DEAD)
    if verdict.turned_away:
        found.append(REJECTS_PODS)
    return found


def _forgiving(state: State, verdict: Verdict, node: Node) -> Record | None:
    """What the record must still say once nothing isolates the node: the forgiven faults that are still open."""
    record, heard = record_of(node), state.heard.get(verdict.node)
    if record is None or heard is None:
        return record
    still = tuple(open_id for open_id in _open_ids(state, verdict, node) if open_id in record.released)
    return msgspec.structs.replace(record, released=still, reasons=(), hold_until=None) if still else None


def _give_back(
    state: State, verdict: Verdict, node: Node, standing: Wanted, now: Instant, alarm: clock.Alarm
) -> Action | Hold:
    """The hold-down is over: release, or probation first, unless the device plugin is not ready for work yet."""
    name, record = verdict.node, record_of(node)
    if standing == ON_PROBATION:
        until = clock.parse(record.probation_until) if record else None
        if until is None or now.wall >= until:
            return Release(node, "its probation passed without a fault", _forgiving(state, verdict, node))
        alarm.ring(now.mono + until - now.wall)
        return Hold(name, "probation", f"takes work that finds no other place until {clock.seconds(until)}")
    if (unit := _being_deleted_for(state, name)) is not None:
        return Hold(
            name, "healed", f"stays isolated until the deletes under way for {unit} are through: they rest on it"
        )
    if (why := devices.not_back(node)) is not None:
        return Hold(name, "allocatable", f"healed, and stays isolated: {why}; {_AS_IT_IS}")
    probation_s = holddown.probation_s(state.policy, record, state.heard.get(name))
    if record is not None and probation_s > 0:
        until = now.wall + probation_s
        kept = msgspec.structs.replace(record, hold_until=None, boot="", probation_until=clock.seconds(until))
        return Isolate(node, ON_PROBATION, kept)
    held_s = holddown.hold_down_s(state.policy, record)
    return Release(node, f"healed for {held_s:.0f} s", _forgiving(state, verdict, node))


def _being_deleted_for(state: State, node: str) -> str | None:
    """A unit whose deletes have begun and had looked at this node's taint: a slow API server may carry them out yet."""
    for key in state.memory.deleting:
        recovery = state.recoveries.get(key.removeprefix("Recovery/"))
        spec = recovery.spec if recovery is not None else None
        if spec is not None and (node in spec.cause.nodes or any(target.node == node for target in spec.targets)):
            return spec.unit
    return None


def _isolate(
    state: State, verdict: Verdict, node: Node, standing: Wanted | None, due: Wanted, brakes: Brakes, now: Instant
) -> Iterator[Action | Hold]:
    record = record_of(node)
    name = verdict.node
    hold_until = None
    if verdict.want is None and not verdict.blind:
        ends = state.memory.wanted[name][due] + holddown.hold_down_s(state.policy, record)
        hold_until = clock.seconds(now.wall + ends - now.mono)
        told = record.hold_until if standing == due and record is not None and record.hold_until else hold_until
        yield Hold(name, "healed", f"hold-down until {told}, then released if it stays healthy")
    elif verdict.blind and verdict.want is None:
        yield Hold(name, "stale-report", "isolated, and its agent cannot be heard: unknown is not healed")
    if standing == due:
        if record is not None and hold_until is not None:
            hold_until = record.hold_until or hold_until
        wanted = _record(state, verdict, node, record, now, hold_until)
        if wanted != record:
            yield KeepRecord(node, wanted)
        return
    if state.paused and due.value != MANUAL:
        yield Hold(name, "paused", f"would taint {due.value}:{due.effect}; {state.paused}")
        return
    afresh = standing in (None, ON_PROBATION)
    if afresh and (braked := brakes.isolation(verdict)) is not None:
        yield Hold(name, *braked)
        return
    wanted = _record(state, verdict, node, record, now, hold_until)
    if afresh:
        session, since = _session(name, node.metadata.uid, now), clock.rfc3339(now.wall)
        wanted = msgspec.structs.replace(wanted, session=session, since=since, by=_by(verdict))
    yield Isolate(node, due, wanted)


def _record(
    state: State, verdict: Verdict, node: Node, old: Record | None, now: Instant, hold_until: str | None
) -> Record:
    """What the record has to say now, going on from what it says."""
    heard = state.heard.get(verdict.node)
    lasting = any(fault.level >= FaultLevel.SEPARATE_NPU for fault in verdict.faults)
    boot = heard.report.boot_id if lasting and heard is not None else ""
    if old is None:
        session, since = _session(verdict.node, node.metadata.uid, now), clock.rfc3339(now.wall)
        return Record(session, since, _by(verdict), verdict.reasons, hold_until, boot=boot)
    # A fault that comes back while the node was healing is a flap; a person's wish and planned work are none.
    again = verdict.want is not None and _by(verdict) not in ("operator", "drill") and not verdict.maintenance
    flapped = again and bool(old.hold_until or old.probation_until)
    overtaken = old.by == "drill" and verdict.want is not None
    return msgspec.structs.replace(
        old,
        by=_by(verdict) if overtaken else old.by,
        reasons=verdict.reasons or old.reasons,
        hold_until=hold_until,
        flaps=old.flaps + flapped,
        boot=boot or old.boot,
        probation_until=None,
    )


def _by(verdict: Verdict) -> str:
    value = verdict.want.value if verdict.want is not None else ""
    if value == MANUAL:
        return "operator"
    causes = [fault for fault in verdict.faults if fault.level.value == value]
    if causes and all(fault.origin == "drill" for fault in causes) and not verdict.turned_away:
        return "drill"
    return "maintenance" if verdict.maintenance and value == NODE_DEAD else "warden"


def _session(name: str, uid: str, now: Instant) -> str:
    """Id of one isolation. Derived, not drawn: planning twice on one snapshot gives one answer."""
    return hashlib.sha256(f"{name}/{uid}/{now.wall:.3f}".encode()).hexdigest()[:16]


def _due(state: State, verdict: Verdict, now: Instant, alarm: clock.Alarm) -> Wanted | None:
    """The strongest isolation that was wanted within the hold-down; wakes the planner when that changes."""
    node = state.nodes.get(verdict.node)
    hold_s = holddown.hold_down_s(state.policy, record_of(node) if node is not None else None)
    live = [verdict.want] if verdict.want else []
    for wanted, at in state.memory.wanted.get(verdict.node, {}).items():
        if now.mono - at < hold_s:
            live.append(wanted)
            alarm.ring(at + hold_s)
    return max(live, key=lambda wanted: wanted.rank, default=None)


def _condition(state: State, verdict: Verdict, node: Node) -> Iterator[Action]:
    wanted = condition_of(verdict, state.heard.get(verdict.node))
    if wanted is None:
        return
    if verdict.silent and verdict.node not in state.heard and not devices.is_npu_node(node) and not current_want(node):
        return
    held = node.condition(CONDITION)
    if held is None or (held.status, held.reason, held.message) != wanted:
        yield SetCondition(node, *wanted)
