"""Which drills may run, and what the agents are told of them.

Whoever may patch a node and create `drills.npuwarden.io` may ask for one (deploy/admission.yaml); the API server's
audit log says who did. Pure: the same state gives the same verdicts and the same commands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from reconciler.core.drill_radius import has_ended, last_of_its_role, no_such_pod
from reconciler.core.drills import WITHOUT_AGENT, Request, requests
from reconciler.core.state import State
from shared.commands import Command, DrillStart, DrillStop
from shared.model import NODE, FaultLevel, Instant, fault_id
from shared.names import CODE_POD_FAILED, CODE_REDIS_DOWN, LOCAL_DRILL

MAX_TTL_S = 3600.0
STOP_S = 60.0
"""A stop that no agent has read by then is sent again, for as long as the drill is seen running."""
_REAL_TROUBLE = FaultLevel.RESTART_REQUEST
DrillState = Literal["asked", "running", "refused", "over"]


class DrillRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One drill: asked (nothing shows of it yet), running, refused (why says it), over (its time has passed).

    would: what the plan of this moment would do, were the effect of a shadow drill real, or once the pod of a drill has
    Failed. held: what is left as it is because of it, and why; of a drill that must change nothing.
    """

    name: str
    node: str
    state: DrillState
    fault: str = ""
    kind: str = ""
    effect: str = ""
    until: float = 0.0
    by: str = ""
    why: str = ""
    would: list[str] = []
    held: str = ""


def rows(state: State, now: Instant) -> list[DrillRow]:
    """Every drill that is asked for or runs, by name."""
    found = [_row(state, node, request, now) for node, request in requests(state)]
    asked = {row.name for row in found}
    for node, heard in state.heard.items():
        drill = heard.report.drill
        if drill is not None and drill.name not in asked and now.wall < drill.until:
            why = "" if drill.name.startswith(LOCAL_DRILL) else "no longer asked for: its agent is told to stop"
            found.append(DrillRow(drill.name, node, "running", drill.fault, "", drill.effect, drill.until, why=why))
    return sorted(found, key=lambda row: (row.name, row.node))


def commands(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """Start what may run, stop what runs and is not asked for."""
    wanted: set[tuple[str, str]] = set()
    for node, request in requests(state):
        if isinstance(request, str) or request.code in WITHOUT_AGENT or now.wall >= request.until:
            continue
        number = f"drill/{request.name}/start"
        starts = not _runs(state, node, request) and number not in sent
        if (starts or _runs(state, node, request)) and refusal(state, node, request, now) is None:
            wanted.add((node, request.name))
            if starts:
                ttl_s = min(request.until - now.wall, MAX_TTL_S)
                order = DrillStart(request.name, request.chip, request.code, ttl_s, request.severity, request.effect)
                yield Command(number, node, now.wall + ttl_s, order)
    for node, heard in state.heard.items():
        drill = heard.report.drill
        if drill is None or (node, drill.name) in wanted or now.wall >= drill.until:
            continue
        if drill.name.startswith(LOCAL_DRILL):
            continue
        number = f"drill/{drill.name}/stop/{heard.report.session}"
        if number not in sent:
            yield Command(number, node, now.wall + STOP_S, DrillStop(drill.name))


def _row(state: State, node: str, request: Request | str, now: Instant) -> DrillRow:
    if isinstance(request, str):
        return DrillRow("-", node, "refused", why=request)
    why = refusal(state, node, request, now)
    how: DrillState = "refused" if why else "running" if _runs(state, node, request) else "asked"
    if now.wall >= request.until:
        how, why = "over", None
    fault = f"pod {request.pod}" if request.code == CODE_POD_FAILED else fault_id(request.code, request.chip)
    return DrillRow(request.name, node, how, fault, request.kind, request.effect, request.until, request.by, why or "")


def _runs(state: State, node: str, request: Request) -> bool:
    if request.code == CODE_POD_FAILED:
        return True  # all of it happens in the API server, as soon as it is not refused
    if request.code == CODE_REDIS_DOWN:
        return not state.reports_ok
    heard = state.heard.get(node)
    return heard is not None and heard.report.drill is not None and heard.report.drill.name == request.name


def refusal(state: State, node: str, request: Request, now: Instant) -> str | None:
    """Why it may not begin. One that runs goes on whatever comes up: real faults are never masked by it."""
    if request.until - now.wall > MAX_TTL_S + STOP_S:
        return f"it would last longer than {MAX_TTL_S:.0f} s"
    begun = _runs(state, node, request) if request.code not in WITHOUT_AGENT else has_ended(state, request)
    if begun:
        return None
    if state.nodes[node].opted_out:
        return f"node {node} is opted out"
    heard = state.heard.get(node)
    if heard is None:
        return f"the agent of {node} has not reported"
    chips = [chip.phy for chip in heard.report.chips]
    if request.chip != NODE and request.chip not in chips:
        return f"{node} has no chip {request.chip}; its physical ids are {', '.join(map(str, chips)) or 'none'}"
    if request.code == CODE_POD_FAILED and (missing := no_such_pod(state, node, request)) is not None:
        return missing
    if (other := _other(state, node, request, now)) is not None:
        return other
    if request.force:
        return None
    if (trouble := _trouble(state)) is not None:
        return f"a real fault is open: {trouble}; --force drills all the same"
    if request.effect == "real" and (last := last_of_its_role(state, node, request)) is not None:
        return f"{last}; --effect shadow says what would be done, --force drills all the same"
    return None


def _other(state: State, node: str, request: Request, now: Instant) -> str | None:
    """One drill at a time: the one that runs, else the first by name."""
    for name, heard in sorted(state.heard.items()):
        drill = heard.report.drill
        if drill is not None and drill.name != request.name and now.wall < drill.until:
            return f"drill {drill.name} runs on {name}: one at a time"
    for name, other in requests(state):
        if isinstance(other, Request) and now.wall < other.until and (other.name, name) < (request.name, node):
            return f"drill {other.name} of {name} is asked for before it: one at a time"
    return None


def _trouble(state: State) -> str | None:
    for name, heard in sorted(state.heard.items()):
        for fault in heard.report.faults:
            if fault.origin == "probe" and fault.level >= _REAL_TROUBLE and name in state.nodes:
                return f"{fault.id} on {name}"
    return None
