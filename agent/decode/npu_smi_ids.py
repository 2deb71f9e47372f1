"""`npu-smi info -m`, which chip has which ids, and `-l`, which cards there are. Pure. Formats: the driver's npucli."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.decode.records import Chip, Chips, Problem
from agent.decode.text import ParseError, known, pairs, quoted, whole

_COLUMNS = re.compile(r"\s{2,}")


class ListedChip(Chip, kw_only=True):
    """One card of `-l`; card is None (the tool prints -1) when it could not be read as the driver started."""

    chip_count: int | None = None
    serial: str | None = None


class Cards(Chips, kw_only=True):
    """total: what the tool says it lists."""

    total: int | None = None


def parse_map(lines: Sequence[str]) -> Chips:
    """`-m`, with 4 or 5 columns. Management controllers and absent cards are left out. Raises ParseError."""
    rows = [_COLUMNS.split(line.strip()) for line in lines if line.strip()]
    start = next((number for number, words in enumerate(rows) if words[0] == "NPU ID" and len(words) > 2), None)
    if start is None:
        raise ParseError(f"no header in the output of npu-smi info -m: {quoted(lines)}")
    if rows[start] in rows[start + 1 :]:
        raise ParseError("two maps in one text: decode the output of one call at a time")
    chips: list[Chip] = []
    for words in rows[start + 1 :]:
        row = dict(zip(rows[start], words, strict=False))
        card, chip = whole(row.get("NPU ID")), whole(row.get("Chip ID"))
        logic, phy = whole(row.get("Chip Logic ID")), whole(row.get("Chip Phy-ID"))
        if card is None or chip is None or (logic is None and phy is None):
            continue
        name = known(row.get("Chip Name"))
        chips.append(Chip(card=card, chip=chip, logic=logic, phy=phy, slot=whole(row.get("Slot ID")), name=name))
    answer = Chips(chips=chips)
    if len(rows) == start + 1:
        answer.error = Problem("truncated", "npu-smi info -m stops behind its header")
    return answer


def parse_list(lines: Sequence[str]) -> Cards:
    """`-l`: a card for each `NPU ID`. Raises ParseError."""
    answer = Cards(chips=[])
    card: ListedChip | None = None
    for key, value in pairs(lines):
        if key == "Total Count":
            if answer.total is not None:
                raise ParseError("two lists in one text: decode the output of one call at a time")
            answer.total = whole(value)
        elif key == "NPU ID":
            card = ListedChip(card=whole(value))
            answer.chips.append(card)
        elif card is not None and key == "Chip Count":
            card.chip_count = whole(value) or None
        elif card is not None and key == "Product Name":
            card.name = known(value)
        elif card is not None and key == "Serial Number":
            card.serial = known(value)
    if answer.total is None:
        raise ParseError(f"no total in the output of npu-smi info -l: {quoted(lines)}")
    if len(answer.chips) < answer.total:
        answer.error = Problem("truncated", f"npu-smi info -l stops after {len(answer.chips)} of {answer.total} cards")
    return answer
