"""The chain of evidence: what was read, what was found in it, what that means, what is done about it, what comes next.

Each link follows from the ones before it. Pure: said of one snapshot and the plan that was made from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal

import msgspec

from reconciler.core import clock, drills, holddown
from reconciler.core.actions import Plan
from reconciler.core.judge import Verdict, judge
from reconciler.core.next_steps import next_of_reason
from reconciler.core.objects import Node
from reconciler.core.state import State
from reconciler.core.taints import MANUAL, current_want, record_of
from shared import catalog
from shared.model import NODE, Fault, Instant

StepName = Literal["reading", "finding", "level", "rule", "isolation", "unit", "decision", "next"]

_HOW = {"chip-not-used": "not concerned", "healed": "waits", "probation": "waits"}
"""Where "refused" would sound like trouble and there is none."""


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """One link. about: a node, a chip of it, or a unit. says: a sentence for people.

    at: when that was, RFC 3339. due_in_s: seconds until it happens by itself. reason: a word of docs/reasons.md where
    something is refused or waits.
    """

    step: StepName
    about: str
    says: str
    at: str | None = None
    due_in_s: float | None = None
    reason: str = ""


def of_node(state: State, plan: Plan, name: str, now: Instant) -> Iterator[Link]:
    """The node's own part: readings, findings with level and rule, isolation, decisions, what comes next."""
    verdict, node = judge(state, name, now), state.nodes.get(name)
    yield from _readings(state, name, node, now)
    heard, record = state.heard.get(name), record_of(node) if node is not None else None
    for fault in heard.report.faults if heard is not None else ():
        yield from _of_fault(state, name, fault, record.released if record is not None else ())
    of_faults = {f"{fault.level.value} {fault.id}" for fault in verdict.faults}
    for reason in verdict.reasons:
        if reason not in of_faults:
            yield Link("finding", name, reason)
    if node is not None:
        yield from _isolation(node)
    ends = list(_ends(plan, verdict, node, now)) if node is not None else []
    yield from decisions(plan, (name, f"Node/{name}"), timed=("healed", "probation") if ends else ())
    yield from ends
    if node is not None:
        yield from _next(state, verdict, node)


def _readings(state: State, name: str, node: Node | None, now: Instant) -> Iterator[Link]:
    if node is None:
        yield Link("reading", name, "the cluster has no such node object")
    else:
        ready = node.condition("Ready")
        word = "Ready" if node.ready else "not Ready"
        yield Link("reading", name, f"its kubelet is {word}", at=ready.last_transition_time if ready else None)
    heard = state.heard.get(name)
    if heard is None:
        away = "" if state.reports_ok else "; reports cannot be read now"
        yield Link("reading", name, f"its agent has not reported to this leader{away}")
        return
    report, age_s = heard.report, now.mono - heard.at
    shown = f"{_many(len(report.chips), 'chip')}, {_many(len(report.faults), 'open fault')}"
    says = f"agent {report.agent.version} reported {clock.span(age_s)} ago: {shown}"
    yield Link("reading", name, says, at=clock.rfc3339(report.at))
    for one in report.unknown:
        yield Link("reading", _place(one.chip, name), f"{one.probe} cannot see it: {one.why}", at=_time(one.since))


def _of_fault(state: State, name: str, fault: Fault, released: Iterable[str]) -> Iterator[Link]:
    row, about = catalog.load().lookup(fault.code), _place(fault.chip, name)
    seen = ", ".join(f"{key} {value}" for key, value in fault.evidence.items())
    part = f" ({fault.part})" if fault.part else ""
    yield Link("reading", about, f"code {fault.code}{part}{f': {seen}' if seen else ''}", at=_time(fault.since))
    known = (fault.evidence.get("name") if row is None else row.name) or "a code without a public name"
    sure = "confirmed by the driver" if fault.confirmed else "not confirmed yet: it may taint, it deletes no pod"
    drill = "; a drill" if fault.origin == "drill" else ""
    yield Link("finding", about, f"{fault.id}: {known}; {sure}{drill}")
    level = fault.level.value
    if row is None:
        whence = "no row of the catalogue names the code"
    elif row.level is fault.level:
        whence = "as the catalogue has it"
    else:
        whence = f"the catalogue has {row.level.value}; the node's fault-code files or how often and how long it came"
        whence += " made it this: /v1/config of its agent says"
    yield Link("level", about, f"{level}: {whence}")
    yield Link("rule", about, _rule(state, fault, released))


def _rule(state: State, fault: Fault, released: Iterable[str]) -> str:
    rule, level = state.policy.rule(fault.level), fault.level.value
    whence = f"levels.{level} of policy.toml" if fault.level in state.policy.levels else f"the default of {level}"
    asks = f"{whence}: taint {rule.taint}, pods {rule.reschedule}"
    if fault.id in released:
        return f"{asks}; forgiven by a person's release of the node"
    if drills.shadow(fault):
        return f"{asks}; a shadow drill, so only watched"
    return f"{asks}; by policy only watched" if state.policy.observes(fault) else asks


def _isolation(node: Node) -> Iterator[Link]:
    standing, record = current_want(node), record_of(node)
    if standing is None:
        yield Link("isolation", node.metadata.name, "the warden's taint does not stand")
        return
    by = f", by {record.by}" if record is not None else ", without a record of whose it is"
    why = ""
    if record is not None and record.reasons:
        why = f": {'; '.join(record.reasons).removeprefix(f'{record.by}: ')}"
    flaps = f"; its faults came back {_many(record.flaps, 'time')}" if record is not None and record.flaps else ""
    says = f"taint {standing.value}:{standing.effect} stands{by}{why}{flaps}"
    yield Link("isolation", node.metadata.name, says, at=record.since if record is not None else None)


def decisions(plan: Plan, subjects: Iterable[str], timed: Collection[str] = ()) -> Iterator[Link]:
    """What the plan refuses and does about these subjects, each refusal with what ends it.

    timed: reasons whose end the caller tells itself, with its time.
    """
    wanted = set(subjects)
    for hold in plan.holds:
        if hold.subject in wanted:
            how = _HOW.get(hold.reason, "refused")
            yield Link("decision", hold.subject, f"{how}: {hold.message}", reason=hold.reason)
            if hold.reason not in timed and (ends := next_of_reason(hold.reason)) is not None:
                yield Link("next", hold.subject, ends, reason=hold.reason)
    for action in plan.actions:
        if action.key in wanted:
            yield Link("decision", action.key.partition("/")[2], f"being done now: {type(action).__name__}")


def _ends(plan: Plan, verdict: Verdict, node: Node, now: Instant) -> Iterator[Link]:
    """When a node on which nothing is wrong any more is given back by itself.

    Not what its record says of an earlier hold-down: a fault has come back, or its device plugin is waited for.
    """
    record, name = record_of(node), node.metadata.name
    waits = any(hold.subject == name and hold.reason == "allocatable" for hold in plan.holds)
    if record is None or verdict.want is not None or verdict.blind or waits:
        return
    ends = (
        (record.hold_until, "released when the hold-down is over, if it stays healthy"),
        (record.probation_until, "released when its probation is over, if no fault returns"),
    )
    for until, says in ends:
        if (at := clock.parse(until)) is not None:
            yield Link("next", name, says, at=until, due_in_s=round(at - now.wall, 3))


def _next(state: State, verdict: Verdict, node: Node) -> Iterator[Link]:
    record, standing, name = record_of(node), current_want(node), node.metadata.name
    if standing is None:
        return
    if verdict.want is not None and verdict.want.value == MANUAL:
        yield Link("next", name, f"stays isolated until `npu-warden release {name}`, which gives it back at once")
    elif verdict.want is not None:
        held_s = holddown.hold_down_s(state.policy, record)
        says = f"stays isolated while that is so, and for a hold-down of {clock.span(held_s)} after it"
        yield Link("next", name, f"{says}; `npu-warden release {name}` gives it back at once")
    elif verdict.blind:
        yield Link("next", name, "stays isolated until it can be seen again: unknown is not healed")


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _place(chip: int | str, name: str) -> str:
    return name if chip == NODE else f"chip {chip} of {name}"


def _time(wall: float) -> str:
    return clock.rfc3339(wall)
