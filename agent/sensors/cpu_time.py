"""CPU time of processes, from /proc/PID/stat (proc(5): fields 14, 15 and 22). Needs the PID namespace of the host."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agent.sensors.holders import NotTheHost, is_host

UTIME, STIME, START = 14 - 3, 15 - 3, 22 - 3
"""Counted behind the name in brackets, which is field 2 and may contain anything."""


class CpuTime(msgspec.Struct, frozen=True):
    """start: in clock ticks since boot, which tells a process from a later one of the same id. used_s: user, system."""

    start: int
    used_s: float


def read_cpu_times(procfs: Path, pids: frozenset[int]) -> dict[int, CpuTime]:
    """Of those that are there; one that is missing here has ended. Blocks. Raises NotTheHost, OSError, ValueError."""
    if not is_host(procfs):
        raise NotTheHost(f"{procfs} does not show the processes of the host: the agent needs hostPID")
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    found: dict[int, CpuTime] = {}
    for pid in pids:
        try:
            stat = (procfs / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[pid] = parse_stat(stat, ticks_per_s)
    return found


def parse_stat(stat: str, ticks_per_s: int) -> CpuTime:
    """Raises ValueError for a line that is not what the kernel writes."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= START:
        raise ValueError(f"no process: {stat[:80]!r}")
    return CpuTime(int(fields[START]), (int(fields[UTIME]) + int(fields[STIME])) / ticks_per_s)
