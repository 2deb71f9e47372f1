"""`npu-smi info -t proc-mem`: processes on the chips of a card. Pure. Format: the driver's npucli."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.decode.npu_smi_blocks import split
from agent.decode.records import Problem, Process, Processes
from agent.decode.text import ParseError, known, quoted, whole

_PROCESS = re.compile(r"\s*Process id:([0-9]+)\s+Process name:(.*?)\s*Process memory\(MB\):([0-9]+)")
_CHIP = re.compile(r"\s*Chip ID\s+: ([0-9]+)")
_NONE = "No process in device"


def parse(lines: Sequence[str]) -> Processes:
    """Processes with the chip they are on where the text says it (without -c). Raises ParseError."""
    blocks = split(lines)
    answer = Processes(processes=[], error=blocks.problem if blocks.count is not None else None)
    waiting: list[Process] = []
    told = False
    for line in lines:
        if found := _PROCESS.fullmatch(line):
            told = True
            if (pid := whole(found[1])) is not None:
                name, memory_mb = known(found[2].strip()), whole(found[3])
                waiting.append(Process(pid=pid, name=name, memory_mb=memory_mb, card=blocks.card))
        elif chip := _CHIP.fullmatch(line):
            for process in waiting:  # the chip's id stands behind its processes
                process.chip = whole(chip[1])
            answer.processes += waiting
            waiting = []
        elif line.strip().startswith(_NONE):
            told = True
    answer.processes += waiting
    if not told and blocks.card is None:
        raise ParseError(f"no processes in this text: {quoted(lines)}")
    if not told:
        answer.error = Problem("truncated", "npu-smi info -t proc-mem stops before its processes")
    return answer
