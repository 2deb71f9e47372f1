"""Dies that are separated for good: what the ConfigMap `npuwarden-separated` says, and on which nodes they are now.

Keyed by die id, which a chip keeps over a new image, a new node name and another slot; the agent's own memory does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from shared.model import Chip, NodeReport

_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")
_NO_ID = frozenset("0Ff-")


class Separation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of the ConfigMap, JSON. Every field may be missing: an entry made by hand counts all the same.

    node, chip: where the die was then. codes: what separated it. since: RFC 3339. release_after_s: its rule releases
    the chip by itself that long after the fault; None = a person has to.
    """

    node: str = ""
    chip: int | None = None
    codes: tuple[str, ...] = ()
    since: str | None = None
    release_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Separated:
    """A listed die that a node shows as this chip."""

    die: str
    chip: int
    entry: Separation

    @property
    def id(self) -> str:
        """As a node's record names it once a person has released the node."""
        return released_id(self.die)

    @property
    def reason(self) -> str:
        codes = ", ".join(self.entry.codes) or "no code given"
        return f"ManuallySeparateNPU chip {self.chip}: die {self.die} is listed as separated ({codes})"


def released_id(die: str) -> str:
    return f"die:{die}"


def die_of(chip: Chip) -> str | None:
    """The chip's die id, if it is one that can tell two dies apart and be a key of a ConfigMap."""
    die = chip.die
    return die if die and _KEY.fullmatch(die) and not set(die) <= _NO_ID else None


def entries(data: Mapping[str, str]) -> dict[str, Separation]:
    """By die. A value that cannot be read is an entry that says nothing but that the die is separated."""
    found: dict[str, Separation] = {}
    for die, text in data.items():
        try:
            found[die] = msgspec.json.decode(text, type=Separation)
        except (msgspec.MsgspecError, RecursionError):
            found[die] = Separation()
    return found


def by_node(data: Mapping[str, str], reports: Mapping[str, NodeReport]) -> dict[str, tuple[Separated, ...]]:
    """The listed dies that each node shows. A die that several nodes show is no identity: then it is where its entry
    says, and nowhere else."""
    listed = entries(data)
    shown: dict[str, list[tuple[str, int]]] = {}
    for node, report in reports.items():
        for chip in report.chips:
            if chip.die in listed and (die := die_of(chip)) is not None:
                shown.setdefault(die, []).append((node, chip.phy))
    found: dict[str, list[Separated]] = {}
    for die, places in shown.items():
        for node, phy in places:
            if len(places) == 1 or node == listed[die].node:
                found.setdefault(node, []).append(Separated(die, phy, listed[die]))
    return {node: tuple(sorted(dies, key=lambda one: (one.chip, one.die))) for node, dies in found.items()}
