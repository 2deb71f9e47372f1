"""How `npu-smi info -t <type>` arranges chips. Pure.

With -c, and on 950, the values of one chip stand alone. Without -c the card comes first, then each of its chips: its
values and behind them its Chip ID; a chip that cannot be read has the id alone. What stands behind the last Chip ID is
of a management controller (`Chip Name : MCU`), which is no chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.decode.records import Problem
from agent.decode.text import ParseError, once, pairs, whole


@dataclass(slots=True)
class Block:
    """The values of one chip, in order; a key is empty where the value before goes on."""

    chip: int | None
    values: list[tuple[str, str]]

    def get(self, *keys: str) -> str | None:
        return next((value for key, value in self.values if key in keys), None)

    def has(self, *keys: str) -> bool:
        return self.get(*keys) is not None


@dataclass(slots=True)
class Blocks:
    """`problem` is set when chips are missing at the end."""

    card: int | None = None
    count: int | None = None
    chips: list[Block] = field(default_factory=list)
    problem: Problem | None = None


def split(lines: Sequence[str]) -> Blocks:
    """The chips of one call. Raises ParseError for the text of several."""
    found = Blocks()
    values: list[tuple[str, str]] = []
    for key, value in pairs(lines):
        if key == "NPU ID":
            if found.card is not None:
                raise ParseError("two cards in one text: decode the output of one call at a time")
            found.card = whole(value)
        elif key == "Chip Count":
            found.count = whole(value)
        elif key == "Chip ID":
            found.chips.append(Block(whole(value), values))
            values = []
        else:
            values.append((key, value))
    for given in (values, *(block.values for block in found.chips)):
        once(given)
    if values and found.count is None and not found.chips:
        found.chips.append(Block(None, values))
    elif len(found.chips) < (found.count or 0) or (found.card is not None and not found.chips):
        found.problem = Problem("truncated", f"{len(found.chips)} of {found.count or 1} chips of the card are here")
    return found
