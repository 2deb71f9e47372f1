"""Processes that hold NPU devices, and the pods they belong to, from /proc.

Needs the PID namespace of the host: in any other, most processes cannot be seen, and nothing found would mean nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

_CHIP = re.compile(r"/dev/davinci(\d+)")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})")
"""In a cgroup path: `/kubepods/burstable/pod<uid>/` or, by systemd, `kubepods-burstable-pod<uid with _>.slice`.
Static pods have 32 digits without a dash."""


class NotTheHost(Exception):
    """/proc is not the host's."""


class Holder(msgspec.Struct, frozen=True):
    """A process of a pod with open chips, by physical id."""

    pid: int
    name: str
    pod: str
    chips: tuple[int, ...]


def is_host(procfs: Path) -> bool:
    """Whether this /proc shows the processes of the host: there, and only there, process 2 is the kernel's."""
    return _comm(procfs / "2") == "kthreadd"


def read_holders(procfs: Path) -> list[Holder]:
    """Blocks: thousands of links are read. Raises NotTheHost, OSError."""
    if not is_host(procfs):
        raise NotTheHost(f"{procfs} does not show the processes of the host: the agent needs hostPID")
    found: list[Holder] = []
    for name in os.listdir(procfs):
        if not name.isdecimal():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            process = procfs / name
            pod = pod_of((process / "cgroup").read_text(encoding="ascii", errors="replace"))
            chips = _chips_of(process) if pod is not None else ()
            if pod is not None and chips:
                found.append(Holder(int(name), _comm(process), pod, chips))
    return found


def pod_of(cgroup: str) -> str | None:
    """UID of the pod in whose cgroup a process is; None for a process of the host itself."""
    found = _POD.search(cgroup)
    return found[1].replace("_", "-") if found else None


def _chips_of(process: Path) -> tuple[int, ...]:
    """Of a process whose first thread has ended (a zombie) the others still hold what it had opened."""
    chips = _chips(process / "fd")
    if chips or "\nState:\tZ" not in (process / "status").read_text(encoding="ascii", errors="replace"):
        return chips
    found: set[int] = set()
    for thread in os.listdir(process / "task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            found.update(_chips(process / "task" / thread / "fd"))
    return tuple(sorted(found))


def _chips(fds: Path) -> tuple[int, ...]:
    chips = set()
    with os.scandir(fds) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = _CHIP.fullmatch(os.readlink(entry.path))
                if found:
                    chips.add(int(found[1]))
    return tuple(sorted(chips))


def _comm(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""
