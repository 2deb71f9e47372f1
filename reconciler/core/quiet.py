"""Nodes that ask for nothing: what one round has found out about them holds for the next, until something changes.

In a fleet of 10,000 nearly all nodes are well, and a round that looks at each again costs a second; after a burst
hundreds are isolated and stay so for hours. A node is quiet when a whole plan has just had nothing for it, and when all
that could change this by itself is known: its object, its report, the age of that report, and what memory has of it.
Then only these are compared, by identity: objects and reports are never changed, they are replaced. Everything else is
judged anew in every round.

It is a shortcut of deciding alone. No precondition of a write and no read-back rests on it, and a round without it
comes to the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from reconciler.core.clock import Alarm
from reconciler.core.holddown import hold_down_s
from reconciler.core.judge import Verdict, silent_since
from reconciler.core.objects import Node
from reconciler.core.policy import Policy
from reconciler.core.state import Heard, Memory, State, Wanted
from reconciler.core.taints import current_want, record_of
from shared.model import Instant
from shared.names import ISOLATE_ANNOTATION, ISOLATION_ANNOTATION, RELEASE_ANNOTATION

SOON_S = 0.001
"""So long after the moment at which a node would turn silent it is."""

_BY_HAND = (ISOLATE_ANNOTATION, RELEASE_ANNOTATION)


class _Known(NamedTuple):
    """hold_s: the hold-down that begins when what isolates it has gone."""

    node: Node
    heard: Heard | None
    verdict: Verdict
    hold_s: float


@dataclass(frozen=True, slots=True)
class _Common:
    """What the verdict on every node depends on. silence: whether an agent that has never spoken is silent."""

    policy: Policy
    reports_ok: bool
    silence: bool


class Quiet:
    """The quiet nodes of one leader. Owned by one planner; `sift` comes before everything else in a round."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._common: _Common | None = None
        self._oldest = float("inf")
        self._unheard = False

    def sift(self, state: State, now: Instant) -> frozenset[str]:
        """Names of the nodes that have to be looked at; the others are quiet."""
        common = _Common(state.policy, state.reports_ok, now.mono > silent_since(state, None))
        if self._common is None or common.policy is not self._common.policy or common != self._common:
            self._known.clear()
            self._common = common
        # With reports unreadable nobody is silent, and the verdict says nothing that grows old.
        heard_from = now.mono - state.policy.detect.agent_silent_after_s if state.reports_ok else float("-inf")
        ahead_from = now.mono - state.policy.detect.agent_silent_after_s - SOON_S
        nodes, reports, memory, oldest = state.nodes, state.heard, state.memory, float("inf")
        over: list[str] = []
        unheard = False
        renewed: list[tuple[str, _Known]] = []
        for name, known in self._known.items():
            heard = reports.get(name)
            if nodes.get(name) is not known.node or not (heard is known.heard or _alike(heard, known.heard)):
                over.append(name)
                continue
            if known.verdict.want is not None and not _asks_alone(memory, name, known.verdict.want):
                over.append(name)
                continue
            if heard is None:
                unheard = True
                continue
            if heard.at < heard_from:
                over.append(name)
                continue
            if ahead_from < heard.at < oldest:
                oldest = heard.at
            if heard is not known.heard:
                renewed.append((name, known._replace(heard=heard)))
        self._known.update(renewed)
        well = self._known.keys() - self.isolated()
        over += well & (memory.wanted.keys() | memory.asking.keys())
        for name in (*over, *memory.rejections, *state.separations):
            self._known.pop(name, None)
        self._oldest, self._unheard = oldest, unheard
        return frozenset(state.nodes.keys() - self._known.keys())

    def verdicts(self) -> dict[str, Verdict]:
        """Of the quiet nodes."""
        return {name: known.verdict for name, known in self._known.items()}

    def learn(self, state: State, verdict: Verdict, node: Node, now: Instant) -> None:
        """A plan has had nothing for this node: it is quiet from now on, if nothing about it changes by itself."""
        name, memory = verdict.node, state.memory
        heard = state.heard.get(name)
        if verdict.dead or verdict.storm or not node.ready or node.spec.unschedulable:
            return
        if current_want(node) != verdict.want or any(key in node.metadata.annotations for key in _BY_HAND):
            return
        if heard is not None and (verdict.silent or not _lasting(heard)):
            return
        if name in memory.rejections or name in state.separations:
            return
        if verdict.want is None:
            if name in memory.wanted or name in memory.asking or ISOLATION_ANNOTATION in node.metadata.annotations:
                return
        elif heard is None or not _asks_alone(memory, name, verdict.want):
            return
        self._known[name] = _Known(node, heard, verdict, hold_down_s(state.policy, record_of(node)))

    def isolated(self) -> set[str]:
        """Names of the quiet nodes whose taint stands and is asked for."""
        return {name for name, known in self._known.items() if known.verdict.want is not None}

    def keep_asking(self, memory: Memory, now: Instant) -> None:
        """What isolates them is asked for at this moment, too."""
        for name, known in self._known.items():
            if (want := known.verdict.want) is not None:
                memory.wanted[name][want] = now.mono

    def ring(self, state: State, alarm: Alarm) -> None:
        """Wake when the first of those that were quiet in this round turns silent, or a hold-down would be over."""
        if self._unheard:
            alarm.ring(silent_since(state, None) + SOON_S)
        if self._oldest < float("inf"):
            silent_at = self._oldest + state.policy.detect.agent_silent_after_s
            alarm.ring(max(silent_since(state, None), silent_at) + SOON_S)
        for name, known in self._known.items():
            if (want := known.verdict.want) is not None:
                alarm.ring(state.memory.wanted[name][want] + known.hold_s)


def _asks_alone(memory: Memory, name: str, want: Wanted) -> bool:
    """Memory has nothing of the node but this one isolation, and that it is asked for."""
    return memory.asking.get(name) == want and memory.wanted.get(name, {}).keys() == {want}


def _alike(heard: Heard | None, before: Heard | None) -> bool:
    """A heartbeat: the verdict is the same, whatever else it says."""
    if heard is None or before is None:
        return False
    now, then = heard.report, before.report
    return now.faults == then.faults and (not now.faults or (now.boot_id == then.boot_id and now.chips == then.chips))


def _lasting(heard: Heard) -> bool:
    """Whether its faults say the same at any time: a drill's end by themselves."""
    return all(fault.origin == "probe" for fault in heard.report.faults)
