"""Brakes: too much at once is more likely a wrong view than a wrong fleet. Release is never braked.

Both are computed from what stands in the cluster and in the reports, never from a counter of their own: a new leader
brakes as the old one did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from reconciler.core import clock
from reconciler.core.actions import BrakesUsed
from reconciler.core.budget import RestartBudget, slots_used
from reconciler.core.capacity import Capacity
from reconciler.core.judge import Verdict
from reconciler.core.objects import Node, Pod
from reconciler.core.policy import share
from reconciler.core.state import State
from reconciler.core.taints import MANUAL, NODE_DEAD, isolated, record_of
from reconciler.core.units import Index, Unit
from reconciler.workloads import members
from shared.model import Fault, Instant


class _Moment(NamedTuple):
    at: float
    domain: str
    version: str


class Brakes:
    """The brakes of one plan, which count what this plan itself has let pass. off: for a question, not for a plan."""

    def __init__(self, state: State, verdicts: Mapping[str, Verdict], now: Instant, *, off: bool = False) -> None:
        self._state, self.verdicts, self._now, self._off = state, verdicts, now, off
        self._taken = 0
        self._budget: RestartBudget | None = None
        self._room: Capacity | None = None
        self._leaving: list[tuple[Sequence[Pod], Collection[str]]] = []

    def isolation(self, verdict: Verdict) -> tuple[str, str] | None:
        """Why a node is not to be tainted now: (word, sentence); None = let it pass, and counted.

        A node in planned maintenance says nothing about the fleet: it is neither held nor counted. Nor is one that a
        person wants isolated: a person has looked.
        """
        if verdict.want is not None and verdict.want.value == MANUAL:
            return None
        if verdict.maintenance and verdict.want is not None and verdict.want.value == NODE_DEAD:
            return None
        if verdict.want is not None and verdict.want.value != NODE_DEAD and (why := self._suspicion(verdict)):
            return "common-cause", why
        if verdict.node in self._begun:
            return None
        if (why := self._open()) is not None:
            return "breaker", why
        self._taken += 1
        return None

    def restart(self, nodes: Iterable[str]) -> tuple[str, str] | None:
        """Why pods on these nodes are not to be restarted now, although their nodes are tainted."""
        if self._off:
            return None
        for name in dict.fromkeys(nodes):
            verdict = self.verdicts.get(name)
            if verdict is not None and not verdict.dead and (why := self._suspicion(verdict)):
                return "common-cause", why
        return None

    def voluntary(self, unit: Unit, index: Index) -> tuple[str, str] | None:
        """Why a unit that still serves is not to be restarted now; None = let it pass, and counted."""
        if self._off:
            return None
        if (why := self._open()) is not None:
            return "breaker", why
        return self._restarts(index).admit(unit)

    def goes_down(self, unit: Unit, index: Index) -> None:
        """A unit that is dead anyway is restarted: counted for its service."""
        self._restarts(index).goes_down(unit)

    def _restarts(self, index: Index) -> RestartBudget:
        self._budget = self._budget or RestartBudget(self._state, index)
        return self._budget

    def room(self, index: Index) -> Capacity:
        """The room for what may be restarted now: without what restarts that are under way will take."""
        if self._room is None:
            self._room = Capacity(self._state)
            for pods, without in (*_under_way(self._state, index), *self._leaving):
                self._room.reserve(pods, without)
        return self._room

    def leaves(self, pods: Sequence[Pod], nodes: Collection[str]) -> None:
        """These pods are restarted, elsewhere than on these nodes."""
        self._leaving.append((pods, nodes))
        if self._room is not None:
            self._room.reserve(pods, nodes)

    def used(self) -> BrakesUsed:
        """How far they are used, this plan's own share included."""
        restarting, slots = self._budget.used() if self._budget is not None else (slots_used(self._state), None)
        is_open = self._open() is not None
        return BrakesUsed(self._fresh + self._taken, self._limit, is_open, restarting, slots)

    @cached_property
    def _begun(self) -> dict[str, float]:
        """Nodes whose isolation is on its way, or had no answer within the window and may stand; since when."""
        window_s, found = self._state.policy.breaker.window_s, {}
        for name, text in self._state.memory.isolating.items():
            node, since = self._state.nodes.get(name), clock.parse(text)
            if node is not None and not isolated(node) and since is not None and self._now.wall - since < window_s:
                found[name] = since
        return found

    @cached_property
    def _isolated_at(self) -> list[float]:
        """When each node was isolated that still is, by its own record: that outlives every leader. Unix seconds.

        A moment ahead of our clock was written by a leader whose clock ran ahead: it counts as now.
        """
        found = list(self._begun.values())
        for node in self._state.nodes.values():
            if not node.spec.taints:
                continue
            record = record_of(node) if isolated(node) else None
            since = clock.parse(record.since) if record is not None and record.by == "warden" else None
            if since is not None:
                found.append(min(since, self._now.wall))
        return sorted(found)

    @cached_property
    def _fresh(self) -> int:
        """Nodes isolated within the breaker's window."""
        window_s = self._state.policy.breaker.window_s
        return sum(self._now.wall - at < window_s for at in self._isolated_at)

    @cached_property
    def _tripped(self) -> bool:
        """So many nodes were isolated within one window, and still are: it lasts until some of them are released."""
        at, limit, window_s = self._isolated_at, max(1, self._limit), self._state.policy.breaker.window_s
        return any(last - first < window_s for first, last in zip(at, at[limit - 1 :], strict=False))

    @cached_property
    def _limit(self) -> int:
        breaker = self._state.policy.breaker
        return max(breaker.min_nodes, share(breaker.nodes, len(self._state.fleet), key="breaker.nodes"))

    def _open(self) -> str | None:
        """Why no further node is isolated. Half-open: once a window has passed, one node is let through, and judged."""
        window_s, recent = self._state.policy.breaker.window_s, self._fresh + self._taken
        if self._tripped and recent == 0:
            return None
        if not self._tripped and recent < self._limit:
            return None
        what = f"{self._fresh} nodes were isolated in the last {window_s:.0f} s, the limit is {self._limit}: look first"
        return f"{what}. Until fewer are isolated, one node passes every {window_s:.0f} s" if self._tripped else what

    @cached_property
    def _domains_needed(self) -> int:
        cause = self._state.policy.common_cause
        return max(cause.nodes, int(cause.share * len(self._state.fleet)))

    @cached_property
    def _bursts(self) -> dict[str, int]:
        """Codes that came up within seconds in so many failure domains that the detector is suspected."""
        seen: dict[str, list[_Moment]] = defaultdict(list)
        for moment, fault in self._asked:
            seen[fault.code].append(moment)
        likely = {code: moments for code, moments in seen.items() if len(moments) >= self._domains_needed}
        window_s = self._state.policy.common_cause.window_s
        widest = {code: max(len(d) for d, _ in _windows(moments, window_s)) for code, moments in likely.items()}
        return {code: domains for code, domains in widest.items() if domains >= self._domains_needed}

    @cached_property
    def _bad_versions(self) -> dict[str, int]:
        """Agent versions that found faults in so many failure domains within seconds while the others saw none."""
        versions = {heard.report.agent.version for heard in self._state.heard.values()}
        found: dict[str, int] = {}
        if len(versions) > 1 and len(self._asked) >= self._domains_needed:
            moments = [moment for moment, _ in self._asked]
            for domains, reporters in _windows(moments, self._state.policy.common_cause.window_s):
                if len(reporters) == 1 and len(domains) >= self._domains_needed:
                    version = next(iter(reporters))
                    found[version] = max(len(domains), found.get(version, 0))
        return found

    @cached_property
    def _asked(self) -> list[tuple[_Moment, Fault]]:
        return [
            (_Moment(fault.since, _domain(self._state, name), self._version(name)), fault)
            for name, verdict in self.verdicts.items()
            if verdict.faults
            for fault in self._asking(verdict.faults)
        ]

    def _version(self, name: str) -> str:
        heard = self._state.heard.get(name)
        return heard.report.agent.version if heard is not None else ""

    def _asking(self, faults: Iterable[Fault]) -> list[Fault]:
        return [fault for fault in faults if self._state.policy.rule(fault.level).taint != "none"]

    def _suspicion(self, verdict: Verdict) -> str | None:
        found = self.suspect(verdict)
        return None if found is None else found[2]

    def suspect(self, verdict: Verdict) -> tuple[str, str, str] | None:
        """(code | agent, which one, why) its faults are not believed; None = they are.

        Only when every fault that asks for something is part of a burst: one that stands alone is believed.
        """
        asking = self._asking(verdict.faults)
        if asking and all(fault.code in self._bursts for fault in asking):
            kind, cause = "code", asking[0].code
            what, domains = cause, self._bursts[cause]
        elif asking and (version := self._version(verdict.node)) in self._bad_versions:
            kind, cause = "agent", version
            what, domains = f"faults by agent {version} alone", self._bad_versions[version]
        else:
            return None
        why = f"{what} came up in {domains} failure domains at once: the detector is suspected, look first"
        return kind, cause, why

    def open(self) -> str | None:
        """Why the breaker lets no further node be isolated; None = it does."""
        return self._open()

    def counts(self, name: str) -> bool:
        """Whether the node's isolation is one of those that the breaker counts."""
        node = self._state.nodes.get(name)
        record = record_of(node) if node is not None and isolated(node) else None
        return record is not None and record.by == "warden"

    def domain(self, name: str) -> str:
        """The failure domain of a node, the node's own name where no label says one."""
        return _domain(self._state, name)


def _under_way(state: State, index: Index) -> Iterator[tuple[Sequence[Pod], Collection[str]]]:
    """Pods of open recoveries that have no place of their own yet, and the nodes that they leave."""
    for recovery in state.recoveries.values():
        if recovery.open:
            old = {target.uid for target in recovery.spec.targets}
            waiting = recovery.status.phase in ("Pending", "Isolating")
            pods = [
                pod
                for pod in members(recovery, index)
                if waiting or pod.node is None or pod.terminating or pod.metadata.uid in old
            ]
            yield pods, recovery.spec.cause.nodes


def _domain(state: State, name: str) -> str:
    """The failure domain of a node: the first of the policy's labels that it has, else itself."""
    node: Node | None = state.nodes.get(name)
    labels = node.metadata.labels if node is not None else {}
    return next((f"{key}={labels[key]}" for key in state.policy.domains.labels if key in labels), name)


def _windows(moments: list[_Moment], window_s: float) -> Iterator[tuple[Mapping[str, int], Mapping[str, int]]]:
    """How many faults each domain and each agent version has, in every window of that length that cannot grow."""
    moments = sorted(moments)
    start = 0
    domains: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    for moment in moments:
        if moment.at - moments[start].at > window_s:
            yield domains, versions
        while moment.at - moments[start].at > window_s:
            for counts, key in ((domains, moments[start].domain), (versions, moments[start].version)):
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]
            start += 1
        domains[moment.domain] += 1
        versions[moment.version] += 1
    yield domains, versions
