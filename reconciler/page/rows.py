"""The small rows that the page is told, and what is said once. They change with the page; programs read /v1."""

from __future__ import annotations

import msgspec

from reconciler.answers import Warden
from reconciler.core.actions import BrakesUsed
from reconciler.core.recovery import Times


class NodeRow(msgspec.Struct, frozen=True, array_like=True):
    """One node: the first letter of its verdict (ok, fault, unknown, dead, released), a character for each chip in the
    order of physical ids, the same for faults of the node itself, the value of the warden's taint."""

    verdict: str
    chips: str
    itself: str
    taint: str


class RecoveryRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recovery without its bookkeeping. pods: how many restart; cause: faults and nodes, for people."""

    unit: str
    level: str
    method: str
    phase: str
    open: bool
    origin: str
    pods: int
    cause: tuple[str, ...]
    created: str = ""
    reason: str = ""
    message: str = ""
    duration: str = ""
    times: Times = Times()


class HoldRow(msgspec.Struct, frozen=True):
    """All refusals for one reason: how many, and a few of them as (subject, message)."""

    count: int
    examples: tuple[tuple[str, str], ...]


class IncidentRow(msgspec.Struct, frozen=True):
    """What many nodes have in common. nodes, held: how many; examples: the first of the nodes by name."""

    kind: str
    since: str
    why: str
    nodes: int
    held: int
    examples: tuple[str, ...]


class Now(msgspec.Struct, frozen=True):
    """What is said once. fault_levels: all open faults but those of drills, which are counted in drill_faults; those
    that are too many to be listed included."""

    warden: Warden
    brakes: BrakesUsed | None
    fault_levels: dict[str, int]
    drill_faults: int
    open_recoveries: int
