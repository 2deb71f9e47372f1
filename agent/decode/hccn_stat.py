"""`hccn_tool -stat -g`: packet counters of a port, two on 910A, 48 on 910B, others on 950. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.records import Decoded, Problem
from agent.decode.text import ParseError, quoted, whole

_COUNTER = re.compile(r"\s*(\w+)\s*:\s*([0-9]+)", re.ASCII)
_TITLE = "packet statistics:"


class Stat(Decoded, kw_only=True):
    """counters: by the tool's names, since the start of the device. port: 950."""

    port: int | None = None
    counters: dict[str, int] = msgspec.field(default_factory=dict)


def parse(lines: Sequence[str]) -> Stat:
    """Raises ParseError."""
    titles = sum(line.strip() == _TITLE for line in lines)
    if titles != 1:
        raise ParseError(f"{titles} packet statistics in this text, expected one port's: {quoted(lines)}")
    answer = Stat(counters={})
    for line in lines:
        found = _COUNTER.fullmatch(line)
        value = whole(found[2]) if found else None
        if found is None or value is None:
            continue
        if found[1] == "port_id":
            answer.port = value
        else:
            answer.counters[found[1]] = value
    if not answer.counters:
        answer.error = Problem("truncated", "the packet statistics stop behind their title")
    return answer
