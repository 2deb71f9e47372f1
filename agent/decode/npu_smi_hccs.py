"""`npu-smi info -t hccs -i N -c C`: the HCCS links of one chip, one value for each link. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.decode.records import Chip, Chips
from agent.decode.text import ParseError, known, once, pairs, quoted, whole


class HccsChip(Chip, kw_only=True):
    """health: OK or NOK, of the links together. lanes: one digit for each lane of a link. Counts since start."""

    lane_mode: list[int] | None = None
    lanes: list[str] | None = None
    speed_gbps: list[int] | None = None
    tx_packets: list[int] | None = None
    tx_bytes: list[int] | None = None
    rx_packets: list[int] | None = None
    rx_bytes: list[int] | None = None
    retry_count: list[int] | None = None
    error_count: list[int] | None = None
    first_error_lane: str | None = None


_LIST = re.compile(r"\[([0-9\s]*)\]")
_LISTS = {
    "hccs lane mode": "lane_mode",
    "hccs link speed": "speed_gbps",
    "hccs tx packets": "tx_packets",
    "hccs tx bytes": "tx_bytes",
    "hccs rx packets": "rx_packets",
    "hccs rx bytes": "rx_bytes",
    "hccs retry count": "retry_count",
    "hccs error count": "error_count",
}


def parse(lines: Sequence[str]) -> Chips:
    """One chip; the text does not say which. Raises ParseError."""
    found = once(pairs(lines))
    if not any(key.startswith("hccs ") for key in found):
        raise ParseError(f"no HCCS links in this text: {quoted(lines)}")
    chip = HccsChip(
        health=known(found.get("hccs health status")),
        lanes=_words(found.get("hccs link lane list")),
        first_error_lane=known(found.get("hccs first error lane")),
    )
    for key, name in _LISTS.items():
        words = _words(found.get(key))
        numbers = [number for word in words or () if (number := whole(word)) is not None]
        setattr(chip, name, numbers if words is not None and len(numbers) == len(words) else None)
    return Chips(chips=[chip])


def _words(value: str | None) -> list[str] | None:
    found = _LIST.fullmatch(value) if value is not None else None
    return found[1].split() if found else None
