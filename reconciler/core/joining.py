"""A hardware fault that shows itself soon after a pod failed for it: it joins the episode, and the retry is returned.

A process often dies of its chip before the chip's fault is reported, up to half a minute later; by then the pod has
been replaced as a software fault. The chips of all pods of the unit count: the one that failed first may have lost a
peer whose chip died. The episode may be over by then: what counts is the time since the failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from reconciler.core import clock
from reconciler.core.actions import ReturnCharge
from reconciler.core.evidence import evidence_of
from reconciler.core.judge import Verdict, few
from reconciler.core.objects import Condition
from reconciler.core.recovery import Cause, Recovery, Target
from reconciler.core.state import State
from shared.model import NODE, Instant

JOINED = "Joined"
"""Condition of a Recovery whose cause was corrected."""


@dataclass(frozen=True, slots=True)
class _Culprit:
    kind: str
    text: str
    node: str


def plan_joins(state: State, verdicts: Mapping[str, Verdict], now: Instant) -> Iterator[ReturnCharge]:
    """One write for each charged software recovery, open or finished, whose cause was hardware after all."""
    for key in sorted(state.recoveries):
        recovery = state.recoveries[key]
        # Once a replacement has landed wrong, a fault may be that one's and no cause of the failure.
        if not recovery.status.charged or recovery.status.attempts or not _recent(state, recovery, now):
            continue
        culprits = {c for target in recovery.spec.targets for c in _culprits(state, verdicts, target)}
        if culprits:
            yield _returned(state, recovery, culprits, now)


def _recent(state: State, recovery: Recovery, now: Instant) -> bool:
    failed_at = clock.parse(recovery.status.times.detected)
    return failed_at is not None and abs(now.wall - failed_at) <= state.policy.reschedule.software_join_s


def _culprits(state: State, verdicts: Mapping[str, Verdict], target: Target) -> Iterator[_Culprit]:
    """Confirmed faults that keep work away from the node, or from the chips that this pod held."""
    verdict = verdicts.get(target.node) if target.node else None
    if verdict is None or verdict.opted_out:
        return
    if verdict.dead:
        yield _Culprit("Node", f"node {verdict.node} is dead", verdict.node)
    for fault in verdict.faults:
        concerns = fault.chip == NODE or target.chips is None or fault.chip in target.chips
        isolates = state.policy.rule(fault.level).taint == "NoSchedule" and fault.code not in state.network_codes
        if concerns and isolates and fault.confirmed:
            kind = "Node" if fault.chip == NODE else "Hardware"
            yield _Culprit(kind, f"{fault.id} on {verdict.node}", verdict.node)


def _returned(state: State, recovery: Recovery, culprits: set[_Culprit], now: Instant) -> ReturnCharge:
    texts = few(sorted({culprit.text for culprit in culprits}))
    kind = "Hardware" if any(culprit.kind == "Hardware" for culprit in culprits) else "Node"
    nodes = sorted({*recovery.spec.cause.nodes, *(culprit.node for culprit in culprits)})
    message = f"{', '.join(texts)}, shown soon after the failure: hardware was the cause, the retry is returned"
    condition = Condition(JOINED, "True", kind, message, clock.seconds(now.wall))
    evidence = evidence_of(state, nodes, recovery.spec.targets)
    return ReturnCharge(
        recovery,
        replace(recovery.spec, cause=Cause(kind, texts, tuple(nodes)), evidence=evidence),
        replace(recovery.status, charged=0, conditions=(*recovery.status.conditions, condition)),
    )
