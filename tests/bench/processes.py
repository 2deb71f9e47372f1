"""CPU and memory of a process with its children, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cpu(msgspec.Struct, frozen=True):
    """Seconds so far. own: the process itself. children: those that live, with what they have waited for.
    ended: children of the process that have ended."""

    own: float
    children: float
    ended: float

    @property
    def total(self) -> float:
        return self.own + self.children + self.ended


def cpu(pid: int) -> Cpu:
    own, waited = _times(pid)
    children = 0.0
    for child in below(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # then it is among those that have ended
            children += sum(_times(child))
    return Cpu(own, children, waited)


def memory(pid: int) -> dict[str, int]:
    """Bytes of the process and everything below it: `Rss` resident, `Pss` what is shared counted by shares."""
    total = {"Rss": 0, "Pss": 0}
    for one in (pid, *below(pid)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for text in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                name, _, rest = text.partition(":")
                if name in total:
                    total[name] += int(rest.split()[0]) * 1024
    return total


def peak(pid: int) -> int:
    """The most memory (bytes) that the process alone has ever had resident."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(text.split()[1]) * 1024 for text in status if text.startswith("VmHWM:"))


def below(pid: int) -> Iterator[int]:
    """Children of all threads, and theirs."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()):
                yield child
                yield from below(child)


def _times(pid: int) -> tuple[float, float]:
    """(own, of children waited for) in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, child_user, child_system = (int(ticks) / TICKS_PER_S for ticks in fields[11:15])
    return user + system, child_user + child_system
