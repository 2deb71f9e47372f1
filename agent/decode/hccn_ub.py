"""`hccn_tool -g -ub_connect -i N`: the UB ports of a 950 and whether each has its link. Pure.

Words: `link status : PARTIAL LINK`, then for each port `port 4 : UP`, DOWN or PARTIAL UP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.hccn_says import required
from agent.decode.records import Decoded
from agent.decode.text import ParseError, quoted

_WHOLE = re.compile(r"link status\s*:\s*(UP|DOWN|PARTIAL LINK)")
_PORT = re.compile(r"port ([0-9]{1,3})\s*:\s*(UP|DOWN|PARTIAL UP)")
_ANY_PORT = re.compile(r"port [0-9]+\s*:.*")


class UbConnect(Decoded, kw_only=True):
    """status and the values of ports: the tool's words."""

    status: str | None = None
    ports: dict[int, str] = msgspec.field(default_factory=dict)


def parse(lines: Sequence[str]) -> UbConnect:
    """Raises ParseError, also for a word that is none: a port that is left out would look well."""
    status = required(_WHOLE, lines, "UB link status")[1]
    ports: dict[int, str] = {}
    for line in map(str.strip, lines):
        found = _PORT.fullmatch(line)
        if found is None and _ANY_PORT.fullmatch(line):
            raise ParseError(f"no state of a UB port: {quoted([line])}")
        if found is not None:
            ports[int(found[1])] = found[2]
    if not ports:
        raise ParseError(f"no port in this text: {quoted(lines)}")
    return UbConnect(status=status, ports=ports)
