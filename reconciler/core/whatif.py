"""What would be done about a unit if its chips, its nodes or its processes failed now.

Nothing is judged here a second time: a snapshot in which everything is broken goes through the same gates as a real
fault (`find_hits`, `strike`, `plan_new`), so the answer cannot differ from what would happen. Brakes, a pause and
observe_only are left out: they pass.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from reconciler.core.actions import Action, Hold, OpenRecovery
from reconciler.core.brakes import Brakes
from reconciler.core.clock import Alarm
from reconciler.core.episodes import plan_new, strike
from reconciler.core.judge import Verdict, judge
from reconciler.core.objects import Pod, PodStatus
from reconciler.core.recovery import FINISHED_PHASES, Recovery
from reconciler.core.state import State
from reconciler.core.triggers import Hit, Hits, chips_of, find_hits
from reconciler.core.units import Index, Unit
from shared.model import Fault, FaultLevel, Instant, fault_id

FaultKind = Literal["chip", "node", "software"]
KINDS: tuple[FaultKind, ...] = ("chip", "node", "software")

LEVEL = FaultLevel.SEPARATE_NPU
"""Of the chip fault that is supposed."""

_CODE = "SUPPOSED"
_UNBOUND = "(not bound)"
"""Stands for the node of a pod that has none yet: no node is called so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether one kind of fault would be handled.

    by: `warden`; or for a crash `kubelet`, where the container restarts in its pod, or `controller`, where the pod's
    own controller replaces it. level, method: of the restart, where the warden does it. reason, message: why not, in
    the words of docs/reasons.md and docs/coverage.md.
    """

    handled: bool
    by: Literal["warden", "kubelet", "controller"] | None = None
    level: str = ""
    method: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Broken:
    """A snapshot in which one kind of fault is everywhere, and what hits each pod (by namespace/name) in it."""

    state: State
    index: Index
    verdicts: Mapping[str, Verdict]
    hits: Mapping[str, tuple[Hit, ...]]


class WhatIf:
    """One snapshot, broken in three ways; each question then looks at one unit. state: as `settled` makes it."""

    def __init__(self, state: State, now: Instant) -> None:
        self._now = now
        self.state, self.index = state, Index(state)
        well = {name: _well(judge(state, name, now)) for name in self.index.by_node}
        self.opted_out = frozenset(name for name, verdict in well.items() if verdict.opted_out)
        self._past: dict[str, dict[str, Recovery]] = defaultdict(dict)
        for key, recovery in state.recoveries.items():
            self._past[recovery.spec.workload.uid][key] = recovery
        chips = {name: dataclasses.replace(v, faults=self._chip_faults(name)) for name, v in well.items()}
        dead = {name: dataclasses.replace(v, dead=not v.opted_out) for name, v in well.items()}
        self._broken: dict[FaultKind, _Broken] = {
            "chip": self._break(_running, chips),
            "node": self._break(_running, dead),
            "software": self._break(_failed, well),
        }

    def ask(self, kind: FaultKind, unit: Unit, pods: Sequence[Pod]) -> Answer | None:
        """What would come of a fault of these pods of the unit; None = such a fault cannot hit any of them."""
        if kind == "chip":
            pods = [pod for pod in pods if self._chips(pod) != frozenset()]
        if not pods:
            return None
        if kind == "software" and all(pod.spec.restart_policy != "Never" for pod in pods):
            return Answer(True, "kubelet")
        if kind == "software" and unit.repairs:
            return Answer(True, "controller", message=unit.repairs)
        if all(pod.node in self.opted_out for pod in pods):
            return Answer(False, reason="opt-out", message="its nodes are opted out of the warden")
        done = self._done(self._broken[kind], unit.workload.uid, pods)
        for action in done:
            if isinstance(action, OpenRecovery) and action.status.phase not in FINISHED_PHASES:
                return Answer(True, "warden", action.spec.level, action.spec.method)
        for hold in done:
            if isinstance(hold, Hold):
                return Answer(False, reason=hold.reason, message=hold.message)
        return Answer(False, reason="policy", message=f"policy.toml restarts nothing for a {kind} fault")

    def _done(self, broken: _Broken, workload_uid: str, pods: Sequence[Pod]) -> list[Action | Hold]:
        struck, refused = strike(
            Hits([hit for pod in pods for hit in broken.hits.get(pod.metadata.key, ())]), broken.index
        )
        # Of other workloads no recovery counts; to look through all of them for each unit would be slow.
        state = dataclasses.replace(broken.state, recoveries=self._past[workload_uid])
        brakes = Brakes(state, broken.verdicts, self._now, off=True)
        done: list[Action | Hold] = list(refused)
        for one in struck.values():
            done += plan_new(state, one, broken.index, brakes, self._now)
        return done

    def _break(self, turned: Callable[[Pod], Pod], verdicts: Mapping[str, Verdict]) -> _Broken:
        state = dataclasses.replace(self.state, pods={key: turned(pod) for key, pod in self.state.pods.items()})
        index = Index(state)
        hits: dict[str, list[Hit]] = defaultdict(list)
        for hit in find_hits(state, verdicts, index, self._now, Alarm(self._now.mono)).hits:
            # A fault that first has to last comes to the same in the end.
            hits[hit.pod.metadata.key].append(dataclasses.replace(hit, wait=None) if hit.wait is not None else hit)
        return _Broken(state, index, verdicts, {key: tuple(found) for key, found in hits.items()})

    def _chips(self, pod: Pod) -> frozenset[int] | None:
        return chips_of(pod, self.state.heard.get(pod.node or ""))

    def _chip_faults(self, node: str) -> tuple[Fault, ...]:
        """A fault on a chip of each pod of the node; on any chip for a pod of which nobody can say which it holds."""
        broken = {min(self._chips(pod) or (0,)) for pod in self.index.by_node[node]}
        faults = [Fault(fault_id(_CODE, c), _CODE, c, LEVEL, self._now.wall, confirmed=True) for c in sorted(broken)]
        return tuple(fault for fault in faults if not self.state.policy.observes(fault))


def settled(state: State) -> State:
    """The state to ask about, with the pods that count, each on a node.

    What waits for a node fares like the rest of its unit once it runs; what has ended or is leaving does not count.
    """
    pods = {
        key: pod if pod.node else _placed(pod)
        for key, pod in state.pods.items()
        if not pod.terminating and pod.status.phase != "Succeeded"
    }
    return dataclasses.replace(state, pods=pods, paused=None)


def _placed(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=_UNBOUND))


def _well(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, dead=False, faults=())


def _failed(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, status=PodStatus(phase="Failed"))


def _running(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, status=PodStatus(phase="Running")) if pod.failed else pod
