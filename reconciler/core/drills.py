"""Drills as the cluster asks for them, an annotation on one node each: which may run, and what the agents are told.

Whoever may patch a node may ask for a drill of it; the API server's audit log says who did. Pure: the same state gives
the same verdicts and the same commands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace as changed
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from reconciler.core.state import Heard, State
from shared.commands import Chip, Command, DrillStart, DrillStop, Name
from shared.model import NODE, Fault, FaultLevel, Instant, fault_id
from shared.names import DRILL_ANNOTATION, LOCAL_DRILL, OPT_OUT_LABEL

MAX_TTL_S = 3600.0
STOP_S = 60.0
"""A stop that no agent has read by then is sent again, for as long as the drill is seen running."""
_REAL_TROUBLE = FaultLevel.RESTART_REQUEST
DrillState = Literal["asked", "running", "refused", "over"]


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation `npuwarden.io/drill`, JSON. until: Unix time after which it means nothing.

    by: who asked, in the API server's words. force: also while real faults are open.
    """

    name: Name
    kind: str
    chip: Chip | Literal["node"]
    code: Name
    until: Annotated[float, Meta(ge=0, le=1e11)]
    severity: Annotated[int, Meta(ge=0, le=3)] = 3
    effect: Literal["shadow", "real"] = "shadow"
    force: bool = False
    by: str = ""


class DrillRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One drill: asked (its agent has not begun), running, refused (why says it), over (its time has passed).

    would: what the plan of this moment would do, were the effect of a shadow drill real.
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


def shadow(fault: Fault) -> bool:
    """Whether nothing is to be done for it: a drill that only shows what would be done."""
    return fault.origin == "drill" and fault.evidence.get("effect") != "real"


def over(fault: Fault, heard: Heard, now: Instant) -> bool:
    """A drill's fault past its end: its agent is not there any more to take it back."""
    until = heard.report.drill.until if heard.report.drill is not None else fault.evidence.get("until")
    return fault.origin == "drill" and not (isinstance(until, int | float) and now.wall < until)


def standing(state: State, node: str, now: Instant) -> list[Fault]:
    """The open faults of a node, without those of a drill that is over."""
    heard = state.heard.get(node)
    return [fault for fault in heard.report.faults if not over(fault, heard, now)] if heard is not None else []


def rows(state: State, now: Instant) -> list[DrillRow]:
    """Every drill that is asked for or runs, by name."""
    found = [_row(state, node, request, now) for node, request in _requests(state)]
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
    for node, request in _requests(state):
        if isinstance(request, str) or _refusal(state, node, request, now) is not None or now.wall >= request.until:
            continue
        wanted.add((node, request.name))
        number = f"drill/{request.name}/start"
        if not _runs(state, node, request.name) and number not in sent:
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


def as_if_real(state: State) -> State:
    """The state in which every shadow drill is real: what is planned from it is what the drill would have caused."""
    heard = {
        node: Heard(replace(said.report, faults=tuple(map(_made_real, said.report.faults))), said.at)
        if any(map(shadow, said.report.faults))
        else said
        for node, said in state.heard.items()
    }
    return changed(state, heard=heard)


def _made_real(fault: Fault) -> Fault:
    return replace(fault, evidence={**fault.evidence, "effect": "real"}) if shadow(fault) else fault


def _requests(state: State) -> Iterator[tuple[str, Request | str]]:
    """By node, in the order of names; a text says why the annotation is no request."""
    for name in sorted(state.nodes):
        text = state.nodes[name].metadata.annotations.get(DRILL_ANNOTATION)
        if text:
            try:
                yield name, msgspec.json.decode(text, type=Request)
            except (msgspec.MsgspecError, RecursionError) as exc:
                yield name, f"annotation {DRILL_ANNOTATION} is no drill: {exc}"


def _row(state: State, node: str, request: Request | str, now: Instant) -> DrillRow:
    if isinstance(request, str):
        return DrillRow("-", node, "refused", why=request)
    why = _refusal(state, node, request, now)
    how: DrillState = "refused" if why else "running" if _runs(state, node, request.name) else "asked"
    if now.wall >= request.until:
        how, why = "over", None
    fault = fault_id(request.code, request.chip)
    return DrillRow(request.name, node, how, fault, request.kind, request.effect, request.until, request.by, why or "")


def _runs(state: State, node: str, name: str) -> bool:
    heard = state.heard.get(node)
    return heard is not None and heard.report.drill is not None and heard.report.drill.name == name


def _refusal(state: State, node: str, request: Request, now: Instant) -> str | None:
    """Why it may not begin. One that runs goes on whatever comes up: real faults are never masked by it."""
    if request.until - now.wall > MAX_TTL_S + STOP_S:
        return f"it would last longer than {MAX_TTL_S:.0f} s"
    if _runs(state, node, request.name):
        return None
    if state.nodes[node].metadata.labels.get(OPT_OUT_LABEL) == "true":
        return f"node {node} is opted out"
    heard = state.heard.get(node)
    if heard is None:
        return f"the agent of {node} has not reported"
    chips = [chip.phy for chip in heard.report.chips]
    if request.chip != NODE and request.chip not in chips:
        return f"{node} has no chip {request.chip}; its physical ids are {', '.join(map(str, chips)) or 'none'}"
    if (other := _other(state, node, request, now)) is not None:
        return other
    if not request.force and (trouble := _trouble(state)) is not None:
        return f"a real fault is open: {trouble}; --force drills all the same"
    return None


def _other(state: State, node: str, request: Request, now: Instant) -> str | None:
    """One drill at a time: the one that runs, else the first by name."""
    for name, heard in sorted(state.heard.items()):
        drill = heard.report.drill
        if drill is not None and now.wall < drill.until:
            return f"drill {drill.name} runs on {name}: one at a time"
    for name, other in _requests(state):
        if isinstance(other, Request) and now.wall < other.until and (other.name, name) < (request.name, node):
            return f"drill {other.name} of {name} is asked for before it: one at a time"
    return None


def _trouble(state: State) -> str | None:
    for name, heard in sorted(state.heard.items()):
        for fault in heard.report.faults:
            if fault.origin == "probe" and fault.level >= _REAL_TROUBLE and name in state.nodes:
                return f"{fault.id} on {name}"
    return None
