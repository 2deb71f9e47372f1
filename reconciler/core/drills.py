"""What a drill is to the judgement of a node: its request, its fault, its silence, and when none of it counts any more.

The request is an annotation of the node. Which one may run is said in drill_orders.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from reconciler.core.objects import Node
from reconciler.core.state import Heard, State
from shared.commands import Chip, Name
from shared.model import NODE, Drill, Fault, Instant, fault_id
from shared.names import CODE_AGENT_SILENT, CODE_POD_FAILED, CODE_REDIS_DOWN, DRILL_ANNOTATION, LOCAL_DRILL

SILENCE = fault_id(CODE_AGENT_SILENT, NODE)
WITHOUT_AGENT = frozenset({CODE_POD_FAILED, CODE_REDIS_DOWN})
"""Codes of drills in which no agent has a part."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation `npuwarden.io/drill`, JSON. until: Unix time after which it means nothing.

    by: who asked, in the API server's words. force: also while real faults are open, and the last instance of a role.
    pod, uid: `namespace/name` and UID of the pod that ends, for the code `NW-POD-FAILED`.
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
    pod: str = ""
    uid: str = ""


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


def silencing(state: State, name: str, now: Instant) -> Drill | None:
    """The drill that keeps the agent of this node silent: its silence is no sign that the node has died.

    Only while it is asked for on a node that is there: of a node that is gone, silence says what it always says.
    """
    heard, node = state.heard.get(name), state.nodes.get(name)
    drill = heard.report.drill if heard is not None else None
    if drill is None or node is None or drill.fault != SILENCE or now.wall >= drill.until:
        return None
    if drill.name.startswith(LOCAL_DRILL):
        return drill
    request = request_of(node)
    return drill if isinstance(request, Request) and request.name == drill.name else None


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


def requests(state: State) -> Iterator[tuple[str, Request | str]]:
    """By node, in the order of names; a text says why the annotation is no request."""
    for name in sorted(state.nodes):
        if (request := request_of(state.nodes[name])) is not None:
            yield name, request


def request_of(node: Node) -> Request | str | None:
    text = node.metadata.annotations.get(DRILL_ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Request)
    except (msgspec.MsgspecError, RecursionError) as exc:
        return f"annotation {DRILL_ANNOTATION} is no drill: {exc}"
