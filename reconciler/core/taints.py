"""Our taint and our record on a node: read them, and what a level asks for."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from reconciler.core.objects import Node, Taint
from reconciler.core.state import Record, Wanted
from shared.model import FaultLevel
from shared.names import ISOLATION_ANNOTATION, TAINT_KEY

NODE_DEAD = "NodeDead"
MANUAL = "Manual"
PROBATION = "Probation"

_EFFECT_RANK = {"PreferNoSchedule": 100, "NoSchedule": 200}
_VALUE_RANK = {level.value: rank for rank, level in enumerate(FaultLevel)} | {MANUAL: 20, NODE_DEAD: 30}


def want(effect: str, value: str) -> Wanted:
    """The effect counts first: a weaker fault that keeps all work away beats a stronger one that only asks to."""
    return Wanted(_EFFECT_RANK.get(effect, 300) + _VALUE_RANK.get(value, 0), effect, value)


ON_PROBATION = want("PreferNoSchedule", PROBATION)
"""Not an isolation: the node takes work that finds no other place, and nothing is deleted for it."""


def current_want(node: Node) -> Wanted | None:
    """The isolation that stands on the node now (our key only)."""
    taint = node.taint(TAINT_KEY)
    return None if taint is None else want(taint.effect, taint.value)


def isolated(node: Node) -> bool:
    """Whether work is kept off it: what is on probation is given back already."""
    return current_want(node) not in (None, ON_PROBATION)


def record_of(node: Node) -> Record | None:
    """The isolation record, None when there is none or it is not ours to read (edited by hand)."""
    text = node.metadata.annotations.get(ISOLATION_ANNOTATION)
    return _record(text) if text else None


@lru_cache(maxsize=4096)  # it is asked for several times a round for each isolated node
def _record(text: str) -> Record | None:
    try:
        return msgspec.json.decode(text, type=Record)
    except (msgspec.MsgspecError, RecursionError):
        return None


def with_taint(node: Node, wanted: Wanted | None, added: str) -> list[dict[str, str]]:
    """All taints of the node with ours set (or, for None, removed); foreign ones stay as they are, in their order."""
    kept = [taint for taint in node.spec.all_taints if taint.key != TAINT_KEY]
    ours = [Taint(TAINT_KEY, wanted.effect, wanted.value, added)] if wanted else []
    return [msgspec.to_builtins(taint) for taint in (*kept, *ours)]
