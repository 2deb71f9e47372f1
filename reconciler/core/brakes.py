"""Brakes: too much at once is more likely a wrong view than a wrong fleet. Release is never braked.

Both are computed from what stands in the cluster and in the reports, never from a counter of their own: a new leader
brakes as the old one did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from reconciler.core import clock
from reconciler.core.judge import Verdict
from reconciler.core.objects import Node
from reconciler.core.policy import share
from reconciler.core.state import State
from reconciler.core.taints import NODE_DEAD, current_want, record_of
from shared.model import Fault, Instant


class Brakes:
    """The brakes of one plan. `taken` counts the isolations that this plan itself has let pass."""

    def __init__(self, state: State, verdicts: Mapping[str, Verdict], now: Instant) -> None:
        self._state, self._verdicts, self._now = state, verdicts, now
        self._taken = 0

    def isolation(self, verdict: Verdict) -> tuple[str, str] | None:
        """Why a node is not to be tainted now: (word, sentence); None = let it pass, and counted."""
        if verdict.want is not None and verdict.want.value != NODE_DEAD and self._suspect(verdict.faults):
            return "common-cause", self._suspicion(verdict.faults)
        if (why := self._open()) is not None:
            return "breaker", why
        self._taken += 1
        return None

    def restart(self, nodes: Iterable[str]) -> tuple[str, str] | None:
        """Why pods on these nodes are not to be restarted now, although their nodes are tainted."""
        for name in dict.fromkeys(nodes):
            verdict = self._verdicts.get(name)
            if verdict is not None and not verdict.dead and self._suspect(verdict.faults):
                return "common-cause", self._suspicion(verdict.faults)
        return None

    @cached_property
    def _fresh(self) -> int:
        """Nodes isolated within the breaker's window, by their own records: `since` outlives every leader."""
        window_s, fresh = self._state.policy.breaker.window_s, 0
        for node in self._state.nodes.values():
            record = record_of(node) if current_want(node) else None
            since = clock.parse(record.since) if record is not None and record.by == "warden" else None
            if since is not None and 0 <= self._now.wall - since < window_s:
                fresh += 1
        return fresh

    @cached_property
    def _limit(self) -> int:
        breaker = self._state.policy.breaker
        return max(breaker.min_nodes, share(breaker.nodes, len(self._state.nodes), key="breaker.nodes"))

    def _open(self) -> str | None:
        if self._fresh + self._taken < self._limit:
            return None
        window_s = self._state.policy.breaker.window_s
        return f"{self._fresh} nodes were isolated in the last {window_s:.0f} s, the limit is {self._limit}: look first"

    @cached_property
    def _bursts(self) -> dict[str, int]:
        """Codes that came up within seconds in so many failure domains that the detector is suspected."""
        cause = self._state.policy.common_cause
        limit = max(cause.nodes, int(cause.share * len(self._state.nodes)))
        seen: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for name, verdict in self._verdicts.items():
            for fault in verdict.faults:
                if self._state.policy.rule(fault.level).taint != "none":
                    seen[fault.code].append((fault.since, _domain(self._state, name)))
        bursts = {code: _widest(moments, cause.window_s) for code, moments in seen.items() if len(moments) >= limit}
        return {code: domains for code, domains in bursts.items() if domains >= limit}

    def _suspect(self, faults: Iterable[Fault]) -> bool:
        """Only when every fault that asks for something is part of a burst: one that stands alone is believed."""
        asking = [fault for fault in faults if self._state.policy.rule(fault.level).taint != "none"]
        return bool(asking) and all(fault.code in self._bursts for fault in asking)

    def _suspicion(self, faults: Iterable[Fault]) -> str:
        code = next(fault.code for fault in faults if fault.code in self._bursts)
        return f"{code} came up in {self._bursts[code]} failure domains at once: the detector is suspected, look first"


def _domain(state: State, name: str) -> str:
    """The failure domain of a node: the first of the policy's labels that it has, else itself."""
    node: Node | None = state.nodes.get(name)
    labels = node.metadata.labels if node is not None else {}
    return next((f"{key}={labels[key]}" for key in state.policy.domains.labels if key in labels), name)


def _widest(moments: list[tuple[float, str]], window_s: float) -> int:
    """The most distinct domains in any window of that length."""
    moments.sort()
    best, start = 0, 0
    inside: dict[str, int] = defaultdict(int)
    for at, domain in moments:
        inside[domain] += 1
        while at - moments[start][0] > window_s:
            left = moments[start][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            start += 1
        best = max(best, len(inside))
    return best
