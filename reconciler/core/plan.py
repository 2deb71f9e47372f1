"""plan(state, now): everything the reconciler would do at this instant, and everything it refuses.

Pure. Safe to interrupt: carry out any part of the answer, plan again, get the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.core.actions import BOOKKEEPING, Action, Hold, Plan, Release
from reconciler.core.brakes import Brakes
from reconciler.core.budget import dead_anyway
from reconciler.core.clock import Alarm
from reconciler.core.deleting import rationed
from reconciler.core.episodes import open_of, plan_escalated, plan_new, strike, struck_of
from reconciler.core.incidents import incidents
from reconciler.core.isolation import plan_node
from reconciler.core.joining import plan_joins
from reconciler.core.judge import judge, silent_since
from reconciler.core.known import Known
from reconciler.core.ledger import plan_ledger
from reconciler.core.precedence import rank_of_recovery, rank_of_unit
from reconciler.core.progress import plan_open
from reconciler.core.publishing import current, plan_tables
from reconciler.core.quiet import SOON_S
from reconciler.core.retention import plan_retention
from reconciler.core.separations import plan_separations
from reconciler.core.state import State
from reconciler.core.telling import plan_told
from reconciler.core.triggers import find_hits
from shared.model import Instant


def plan(state: State, now: Instant, known: Known | None = None) -> Plan:
    """Actions in the order they are to be started, refusals, and when to look again without any news.

    known: what the same leader's last round has found out; it spares work and changes nothing in the answer.
    """
    known = known or Known()
    alarm, index = Alarm(now.mono), known.follow(state)
    quiet = known.quiet
    restless = quiet.sift(state, now)
    out: list[Action | Hold] = []
    # A node that exists only in a pod's nodeName (its object is gone) is judged too: its pods are lost.
    verdicts = quiet.verdicts()
    lost = index.by_node.keys() - state.nodes.keys()
    verdicts |= {name: judge(state, name, now) for name in restless | lost}
    brakes = Brakes(state, verdicts, now)
    out += plan_ledger(state, known.limits)  # first: a pod that runs before its job's entry stands can end the job
    out += plan_separations(state, now)
    for name in sorted(restless):
        steps = list(plan_node(state, verdicts[name], state.nodes[name], brakes, now, alarm))
        if not steps:
            quiet.learn(state, verdicts[name], state.nodes[name], now)
        out += steps

    struck, refused = strike(find_hits(state, verdicts, index, now, alarm), index)
    out += refused
    joins = {action.key: action for action in plan_joins(state, verdicts, now)}
    out += joins.values()
    out += plan_told(state, index)
    opened = open_of(state)
    for key in sorted(opened, key=lambda key: rank_of_recovery(opened[key], index)):
        if f"Recovery/{opened[key].metadata.key}" in joins:
            continue  # goes on once its cause is right
        larger = opened.get(opened[key].spec.unit)
        out += plan_open(state, opened[key], struck_of(key, struck), larger, verdicts, index, now, alarm)
    out += plan_escalated(state, opened, index, now)
    # What is dead anyway goes first: nothing that serves is then taken from the same service.
    dead = {key for key, unit in struck.items() if dead_anyway(state, verdicts, unit.unit)}
    for key in sorted(struck.keys() - opened.keys(), key=lambda key: (key not in dead, rank_of_unit(struck[key].unit))):
        if struck[key].unit.id not in opened:
            out += plan_new(state, struck[key], index, brakes, now)

    out += plan_retention(state)
    out += plan_tables(state)
    out = list(rationed(state, out, alarm))
    _ring(state, restless | (lost & state.heard.keys()), now, alarm)
    quiet.ring(state, alarm)
    holds = tuple(item for item in out if isinstance(item, Hold))
    actions = tuple(item for item in out if not isinstance(item, Hold))
    if state.policy.observe_only:
        by_hand = tuple(action for action in actions if isinstance(action, Release) and action.by_hand)
        acting = [a for a in actions if not isinstance(a, BOOKKEEPING) and a not in by_hand]
        holds += tuple(Hold(a.key, "observe-only", f"would do: {type(a).__name__}") for a in acting)
        actions = by_hand  # a person's own act, which the warden only carries out
    loud = restless | lost | quiet.isolated()
    found = incidents(state, {name: verdicts[name] for name in loud}, brakes, holds, now)
    return Plan(actions, holds, alarm.at, brakes.used(), current(state), found)


def _ring(state: State, nodes: Iterable[str], now: Instant, alarm: Alarm) -> None:
    """Wake when one of these nodes would turn silent, or dead by NotReady alone, or a pause ends."""
    for name in nodes:
        alarm.ring(silent_since(state, state.heard.get(name)) + SOON_S)
    if state.paused_until is not None:
        alarm.ring(now.mono + state.paused_until - now.wall)
    for at in state.memory.not_ready_since.values():
        alarm.ring(at + state.policy.detect.not_ready_after_s)
