"""The errors that hccn_tool prints, on stderr or stdout, and the 950's tables. Pure. Texts: the driver's hccn_tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from agent.decode.records import Problem
from agent.decode.text import ParseError, cells, quoted

ERRORS = {
    "hccn_tool is busy": "busy",
    "I2c is busy": "busy",
    "in optical module initializing": "busy",
    "Get device health status failed": "not-ready",
    "Get invalid device id": "no-device",
    "The device is not exist": "no-device",
    "no ip was preset": "no-address",
    "Optical module is not present": "no-module",
    "Command unsupported": "unsupported",
    "The command is not supported": "unsupported",
    "permission denied": "denied",
    "The cmd line execute timeout": "timeout",
    "Control link unreachable": "unreachable",
    "Get invalid major cmd": "usage",
    "count of input parameters is wrong": "usage",
    "Command execute failed": "failed",
    "Cmd execute failed": "failed",
    "The hccn.conf can't access": "failed",
}
"""A part of the text, and what it comes to; busy can be tried again."""


def said(lines: Iterable[str]) -> Problem | None:
    """The error among these lines."""
    for line in lines:
        for text, code in ERRORS.items():
            if text in line:
                return Problem(code, line.strip())
    return None


def only(pattern: re.Pattern[str], lines: Sequence[str], what: str) -> re.Match[str] | None:
    """The one line of this form, None without one. Raises ParseError for several: they are several ports' answers."""
    found = [match for line in lines if (match := pattern.fullmatch(line.strip()))]
    if len(found) > 1:
        raise ParseError(f"{len(found)} answers for one {what}: decode one port's output at a time")
    return found[0] if found else None


def required(pattern: re.Pattern[str], lines: Sequence[str], what: str) -> re.Match[str]:
    """The same, but it has to be there."""
    found = only(pattern, lines, what)
    if found is None:
        raise ParseError(f"no {what} in this text: {quoted(lines)}")
    return found


def grid(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The rows of a 950 table by the names in its first row."""
    header: list[str] | None = None
    for line in map(str.strip, lines):
        if not line.startswith("|"):
            continue
        row = cells(line)
        if header is None:
            header = row
        elif len(row) == len(header):
            yield dict(zip(header, row, strict=True))
