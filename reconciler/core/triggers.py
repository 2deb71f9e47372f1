"""Which pods are hit, by what, and whether that calls for a restart now, later or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from reconciler.core.clock import Alarm
from reconciler.core.judge import Verdict
from reconciler.core.muting import Window, window_of
from reconciler.core.objects import Pod
from reconciler.core.state import Heard, State
from reconciler.core.units import SUB_HEALTHY, Index, NoUnit, Unit, label_values, only_value
from reconciler.workloads import unit_of
from shared.model import NODE, Fault, Instant
from shared.names import DRILL_CONDITION

CauseKind = Literal["Hardware", "Node", "Software", "SubHealth"]

_CHIP_NAME = re.compile(r"-(\d{1,9})$")
_REAL = "huawei.com/AscendReal"


@dataclass(frozen=True, slots=True)
class Hit:
    """One reason to restart one pod. wait: why not now (word, sentence), None = now."""

    pod: Pod
    kind: CauseKind
    fault: str
    """For people: `80E18402@3 on node-a`."""
    node: str | None
    since_wall: float | None = None
    origin: str = "probe"
    method: str | None = None
    wait: tuple[str, str] | None = None


@dataclass
class Hits:
    """All hits, and the pods on faulty nodes that no fault touches (`chip-not-used`)."""

    hits: list[Hit] = field(default_factory=list)
    spared: list[tuple[Pod, str]] = field(default_factory=list)


def chips_of(pod: Pod, heard: Heard | None) -> frozenset[int] | None:
    """Physical ids of the chips a pod holds; None = it asks for NPUs and nobody can say which.

    `huawei.com/AscendReal` (written by MindCluster's device plugin) first, then what the agent read from the kubelet.
    An annotation of which one part cannot be read says nothing: the chip that is hit may be that one.
    """
    if named := _named(pod.metadata.annotations.get(_REAL, "")):
        return named
    if heard is not None:
        held = frozenset(chip.phy for chip in heard.report.chips if pod.metadata.uid in chip.pods)
        if held:
            return held
    return None if pod.npus else frozenset()


@lru_cache(maxsize=10_000)
def _named(chips: str) -> frozenset[int]:
    """The ids in a list of names, none if one of them cannot be read. Kept: the same pods are asked in every round."""
    named = [_CHIP_NAME.search(part.strip()) for part in chips.split(",") if part.strip()]
    ids = frozenset(int(match.group(1)) for match in named if match is not None)
    return frozenset() if None in named else ids


def find_hits(state: State, verdicts: Mapping[str, Verdict], index: Index, now: Instant, alarm: Alarm) -> Hits:
    found = Hits()
    for name in sorted(_in_trouble(verdicts) & index.by_node.keys()):
        verdict = verdicts[name]
        for pod in index.by_node[name]:
            if pod.status.phase == "Succeeded":
                continue
            hits = list(_node_hits(state, verdict, pod, index, now, alarm))
            found.hits += hits
            if not hits and any(_restarts(state, fault) for fault in verdict.faults):
                found.spared.append((pod, name))
    found.hits += _software_hits(state, verdicts)
    return found


def _in_trouble(verdicts: Mapping[str, Verdict]) -> set[str]:
    return {name for name, verdict in verdicts.items() if (verdict.dead or verdict.faults) and not verdict.opted_out}


def _restarts(state: State, fault: Fault) -> bool:
    return fault.code not in state.network_codes and state.policy.rule(fault.level).reschedule in ("now", "after")


def _window(pod: Pod, index: Index, fault: Fault, usual_s: float) -> Window:
    unit = unit_of(pod, index)
    return Window(usual_s) if isinstance(unit, NoUnit) else window_of(unit, index, fault, usual_s=usual_s)


def _node_hits(state: State, verdict: Verdict, pod: Pod, index: Index, now: Instant, alarm: Alarm) -> Iterator[Hit]:
    if verdict.dead:
        yield Hit(pod, "Node", f"node {verdict.node} is dead", verdict.node)
        return
    held = chips_of(pod, state.heard.get(verdict.node))
    for fault in verdict.faults:
        if fault.code in state.network_codes:
            continue
        if fault.chip != NODE and held is not None and fault.chip not in held:
            continue
        rule = state.policy.rule(fault.level).reschedule
        if rule == "never":
            continue
        wait: tuple[str, str] | None = None
        kind: CauseKind = "Node" if fault.chip == NODE else "Hardware"
        if rule == "label":
            kind = "SubHealth"
        if not fault.confirmed:
            wait = ("unconfirmed", f"{fault.id} is not in the driver's own list yet: taint only")
        else:
            usual_s = state.policy.reschedule.restart_request_after_s if rule == "after" else 0.0
            window = _window(pod, index, fault, usual_s)
            ripe = state.memory.first_heard.get((verdict.node, fault.id), now.mono) + window.seconds
            if window.seconds > 0 and now.mono <= ripe:
                alarm.ring(ripe + 0.001)
                text = f"{fault.id} may still pass: restarts in {ripe - now.mono:.0f} s if it stays"
                wait = ("muted", "; ".join((text, *window.notes)))
        where = f"{fault.id} on {verdict.node}"
        yield Hit(pod, kind, where, verdict.node, fault.since, fault.origin, wait=wait)


def _software_hits(state: State, verdicts: Mapping[str, Verdict]) -> Iterator[Hit]:
    """Pods that Failed; where the policy says so, also those whose containers failed and were restarted in place."""
    in_place = state.policy.reschedule.last_state_exits
    for pod in state.pods.values():
        if not (pod.failed or in_place) or pod.terminating or pod.status.phase == "Succeeded":
            continue
        codes = _exit_codes(pod)
        if not (pod.failed or codes):
            continue
        if pod.node and (verdict := verdicts.get(pod.node)) is not None and verdict.opted_out:
            continue
        what = "Failed" if pod.failed else "was restarted in place"
        if pod.failed and pod.status.reason:  # the kubelet has ended it: Evicted, UnexpectedAdmissionError, ...
            what = f"{what} ({pod.status.reason})"
        text = f"pod {pod.metadata.name} {what}" + (f" (exit {', '.join(map(str, codes))})" if codes else "")
        origin = "probe" if pod.condition(DRILL_CONDITION) is None else "drill"
        yield Hit(pod, "Software", text, pod.node, origin=origin)


def _exit_codes(pod: Pod) -> list[int]:
    """How the containers of a Failed pod ended; of another one, how those ended that restartPolicy Always restarted."""
    states = pod.status.container_statuses or ()
    if pod.failed:
        return [s.state.terminated.exit_code for s in states if s.state.terminated]
    if pod.spec.restart_policy != "Always":
        return []
    last = [s.last_state.terminated.exit_code for s in states if s.last_state.terminated]
    return [code for code in last if code != 0]


def sub_health_method(unit: Unit, index: Index) -> str | None:
    """`subHealthyStrategy`: graceExit -> grace, forceExit -> force, anything else -> None (ignore, the default)."""
    value = only_value(label_values(unit, index, SUB_HEALTHY), "ignore")
    return {"graceExit": "grace", "forceExit": "force"}.get(value)


def sub_health_ignored(unit: Unit, index: Index) -> str:
    """Why a sub-healthy chip restarts nothing here: the label is missing, says so, or cannot be followed."""
    values = sorted(label_values(unit, index, SUB_HEALTHY))
    if len(values) > 1:
        return f"a chip is sub-healthy: label {SUB_HEALTHY} has different values ({', '.join(values)}), so ignore"
    if values and values[0] != "ignore":
        return f"a chip is sub-healthy: label {SUB_HEALTHY}={values[0]!r} is no ignore, graceExit, forceExit, so ignore"
    return f"a chip is sub-healthy: label {SUB_HEALTHY} is {'ignore' if values else 'missing, so ignore'}"
