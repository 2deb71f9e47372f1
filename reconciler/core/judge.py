"""What is known about one node: dead, silent, faulty; and which isolation that asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.core import drills
from reconciler.core.devices import withdrawn
from reconciler.core.objects import Node
from reconciler.core.rejections import CODE as REJECTS_PODS
from reconciler.core.rejections import rejected
from reconciler.core.separated import Separated
from reconciler.core.state import Heard, State, Wanted
from reconciler.core.taints import MANUAL, NODE_DEAD, record_of, want
from shared.model import NODE, Fault, FaultLevel, Instant
from shared.names import CODE_MONITOR_BLIND, ISOLATE_ANNOTATION

FIRST_MINUTE_S = 60.0
"""A leader this young takes nobody for silent: the agents' next reports are on their way."""

_REJECTS_LEVEL = FaultLevel.PRE_SEPARATE_NPU

_SEPARATED_LEVEL = FaultLevel.MANUALLY_SEPARATE_NPU
MAX_TEXTS = 20
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """One node at one instant.

    dead: work on it is lost. silent: its agent has said nothing for too long. blind: it cannot be said to be well
    (silent, never heard, reports unreadable, or not Ready), so nothing there counts as healed.
    storm: it would count as dead by NotReady alone, but so many nodes are NotReady that the view is suspect.
    turned_away: pods of several workloads that its kubelet has turned away. observed: open faults that the policy
    only watches. maintenance: it was cordoned before it went NotReady. softened: values of taints that only ask work
    to stay away, because the device plugin has withdrawn the faulty chips (policy: isolate.scope = "chip").
    separated: dies of it that are separated for good, whatever its agent says, without those of a person's release.
    silenced_by: the drill that keeps its agent silent: silence that says nothing of the node.
    faults: open ones, without those that a person's release has forgiven. want: the isolation asked for now.
    reasons: why, for people. opted_out: hands off by the operator's label.
    """

    node: str
    dead: bool
    silent: bool
    blind: bool
    storm: bool
    opted_out: bool
    want: Wanted | None
    reasons: tuple[str, ...]
    faults: tuple[Fault, ...]
    turned_away: tuple[str, ...] = ()
    observed: tuple[Fault, ...] = ()
    maintenance: bool = False
    softened: frozenset[str] = frozenset()
    separated: tuple[Separated, ...] = ()
    silenced_by: str = ""


def few(texts: Sequence[str]) -> tuple[str, ...]:
    """As many as a person reads, the rest counted: they go into objects whose size the API server limits."""
    shown = tuple(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..." for text in texts[:MAX_TEXTS])
    return shown if len(texts) <= MAX_TEXTS else (*shown, f"and {len(texts) - MAX_TEXTS} more")


def silent_since(state: State, heard: Heard | None) -> float:
    """From when on (monotonic) the node's silence counts; later than now means: not silent.

    Silence is counted from the last report, but never from before reports could be read, nor in a leader's first
    minute.
    """
    after_s = state.policy.detect.agent_silent_after_s
    floor = max(state.leader_since + FIRST_MINUTE_S, (state.memory.reports_since or 0.0) + after_s)
    return floor if heard is None else max(floor, heard.at + after_s)


def judge(state: State, name: str, now: Instant) -> Verdict:
    """The verdict on one node, from the newest report, the node object and memory."""
    node, heard = state.nodes.get(name), state.heard.get(name)
    unheard = state.reports_ok and now.mono > silent_since(state, heard)
    drill = drills.silencing(state, name, now) if unheard else None
    silent = unheard and (drill is None or drill.effect == "real")
    # An agent that has never spoken has not fallen silent: a node that has just joined is not Ready either.
    # One that a drill keeps quiet has not either.
    lost = unheard and drill is None and (node is None or heard is not None)
    dead, storm = _dead(state, name, node, lost, now)
    record = record_of(node) if node is not None else None
    forgiven = record.released if record is not None else ()
    dead = dead and NODE_DEAD not in forgiven
    standing = [fault for fault in drills.standing(state, name, now) if fault.id not in forgiven]
    faults = tuple(fault for fault in standing if not (state.policy.observes(fault) or drills.shadow(fault)))
    opted_out = node is not None and node.opted_out

    softened = _softened(state, node, faults)
    candidates: list[tuple[Wanted, str]] = []
    if dead:
        candidates.append((want("NoSchedule", NODE_DEAD), _why_dead(node, unheard and drill is None)))
    if node is not None and (why := node.metadata.annotations.get(ISOLATE_ANNOTATION)):
        candidates.append((want("NoSchedule", MANUAL), f"operator: {why}"))
    separated = _separated(state, name, faults, forgiven)
    if (separate := state.policy.rule(_SEPARATED_LEVEL).taint) != "none":
        candidates += [(want(separate, _SEPARATED_LEVEL.value), one.reason) for one in separated]
    for fault in faults:
        rule = state.policy.rule(fault.level)
        if rule.taint != "none":
            effect = "PreferNoSchedule" if fault.chip != NODE and fault.level.value in softened else rule.taint
            candidates.append((want(effect, fault.level.value), f"{fault.level.value} {fault.id}"))
    turned_away = () if state.policy.observes_code(REJECTS_PODS) else rejected(state, name, now.mono)
    if turned_away and REJECTS_PODS not in forgiven and (rule := state.policy.rule(_REJECTS_LEVEL)).taint != "none":
        reason = f"{_REJECTS_LEVEL.value} {REJECTS_PODS}: the kubelet turned away {', '.join(few(turned_away))}"
        candidates.append((want(rule.taint, _REJECTS_LEVEL.value), reason))
    candidates.sort(key=lambda pair: (-pair[0].rank, pair[1]))
    return Verdict(
        node=name,
        dead=dead and not opted_out,
        silent=silent,
        blind=unheard or heard is None or not state.reports_ok or node is None or not node.ready,
        storm=storm,
        opted_out=opted_out,
        want=candidates[0][0] if candidates and not opted_out else None,
        reasons=few([text for _, text in candidates]),
        faults=faults,
        turned_away=turned_away,
        observed=tuple(fault for fault in standing if state.policy.observes(fault) or drills.shadow(fault)),
        maintenance=_maintenance(state, name, node),
        softened=softened,
        separated=separated,
        silenced_by=drill.name if drill is not None else "",
    )


def _separated(state: State, name: str, faults: Sequence[Fault], forgiven: Sequence[str]) -> tuple[Separated, ...]:
    """Dies that are separated for good although the node's agent does not say so (any more)."""
    override = state.policy.levels.get(_SEPARATED_LEVEL)
    if override is not None and override.observe_only:
        return ()
    told = {fault.chip for fault in faults if fault.level is _SEPARATED_LEVEL}
    return tuple(one for one in state.separations.get(name, ()) if one.id not in forgiven and one.chip not in told)


def _maintenance(state: State, name: str, node: Node | None) -> bool:
    cordoned, not_ready = state.memory.cordoned_since.get(name), state.memory.not_ready_since.get(name)
    if node is None or not node.spec.unschedulable or cordoned is None:
        return False
    # Both seen in one moment is how a new leader finds them: which was first nobody can say, so it is no excuse.
    return not_ready is not None and cordoned < not_ready


def _softened(state: State, node: Node | None, faults: Sequence[Fault]) -> frozenset[str]:
    """Levels of chip faults that need no NoSchedule, because no scheduler can give out these chips any more."""
    if state.policy.isolate.scope != "chip" or node is None:
        return frozenset()
    hard = [f for f in faults if f.chip != NODE and state.policy.rule(f.level).taint == "NoSchedule"]
    heard = state.heard.get(node.metadata.name)
    seen = {chip.phy for chip in heard.report.chips} if heard is not None else set()
    if not withdrawn(node, {fault.chip for fault in hard if fault.chip != NODE}, seen):
        return frozenset()
    return frozenset(fault.level.value for fault in hard)


def _dead(state: State, name: str, node: Node | None, lost: bool, now: Instant) -> tuple[bool, bool]:
    """(dead, held back because of a NotReady storm). lost: its agent was heard once and is silent now."""
    if node is not None and node.ready:
        return False, False
    if lost:
        return True, False
    if node is None:
        return False, False  # the object is gone but the agent speaks: it is being re-created
    since = state.memory.not_ready_since.get(name)
    if since is None or now.mono - since < state.policy.detect.not_ready_after_s:
        return False, False
    storm = state.not_ready_share > state.policy.detect.not_ready_storm
    return not storm, storm


def _why_dead(node: Node | None, silent: bool) -> str:
    parts = ["node object is gone" if node is None else "kubelet not Ready", "agent silent" if silent else ""]
    return " and ".join(part for part in parts if part)


def condition_of(verdict: Verdict, heard: Heard | None) -> tuple[str, str, str] | None:
    """(status, reason, message) of the condition NPUHealthy; None while nothing is known yet."""
    if verdict.dead:
        return "False", "NodeDead", "; ".join(verdict.reasons)
    if verdict.silent:
        return "Unknown", "AgentSilent", "no report from the agent: neither healthy nor faulty, taints stay"
    if heard is None:
        return None
    open_ = [fault for fault in heard.report.faults if fault.origin != "drill" or fault in verdict.faults]
    bad = [f for f in open_ if f.level >= FaultLevel.RESTART_REQUEST or f.code == CODE_MONITOR_BLIND]
    if bad:
        worst = max(bad, key=lambda f: f.level)
        return "False", worst.level.value, ", ".join(sorted(f.id for f in bad))[:1024]
    if verdict.separated:
        reasons = "; ".join(one.reason for one in verdict.separated)
        return "False", _SEPARATED_LEVEL.value, reasons[:1024]
    if verdict.turned_away:
        return "False", _REJECTS_LEVEL.value, f"{REJECTS_PODS}: {', '.join(few(verdict.turned_away))}"[:1024]
    return "True", "Healthy", "no open fault of RestartRequest or above"
