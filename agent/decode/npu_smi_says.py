"""The errors that npu-smi prints: on stdout, before or instead of an answer, some of them with exit code 0. Pure.

Texts: the driver's npucli. `[WARNING]...` about the driver package and `Get pid name failed.` are no errors of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.decode.records import Problem

INVALID_ID = -8008
"""What DCMI calls a device that does not exist."""
NOT_SUPPORTED = -8255

_RET = re.compile(r"ret is (-[0-9]{4,5})(?![0-9])")  # four digits at least: a cut -8005 is no -800
_NO_DEVICE = ("Invalid card id", "Invalid chip id", "There is no NPU chip")
_UNSUPPORTED = "This device does not support"
_FAILED = (
    "There is no NPU card",
    "Failed to query",
    "Failed to execute",
    "Command or option is not found",
    "Error parameter",
    "Must input parameter",
    "Usage: npu-smi",
    "dcmi mod",
    "npu get board type failed",
)


class ToolSays(Exception):
    """The tool printed an error. `ret`: the driver's return code in it, None when it names none."""

    def __init__(self, text: str, ret: int | None) -> None:
        super().__init__(text)
        self.ret = ret


def said(lines: Iterable[str]) -> Problem | None:
    """The error among these lines: one with the driver's return code before any other."""
    found: Problem | None = None
    for line in map(str.strip, lines):
        if ret := _RET.search(line):
            return Problem(int(ret[1]), line)
        if found is not None:
            continue
        if line.startswith(_NO_DEVICE):
            found = Problem(INVALID_ID, line)
        elif line.startswith(_UNSUPPORTED):
            found = Problem(NOT_SUPPORTED, line)
        elif line.startswith(_FAILED):
            found = Problem("failed", line)
    return found


def check(text: str, exit_code: int) -> None:
    """Raise ToolSays when the output of a call is an error."""
    lines = text.splitlines()
    problem = said(lines)
    if problem is not None:
        raise ToolSays(problem.text, problem.code if isinstance(problem.code, int) else None)
    if exit_code != 0:
        first = next((line.strip() for line in lines if line.strip()), f"exit code {exit_code}, no output")
        raise ToolSays(first, None)
