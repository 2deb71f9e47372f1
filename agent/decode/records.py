"""What decoding gives, as printed by `npu-warden decode`. Every field is always there; None = not told, never 0.

Units are in the names. Health words are the tool's own (OK, Warning, Alarm, Critical, UNKNOWN).
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """Why there is no (whole) answer.

    code: the driver's return code where the tool names one (-8005), else a word: truncated, foreign, empty, failed, and
    for hccn_tool busy, timeout, unsupported and the like (docs/decode.md).
    """

    code: int | str
    text: str


class Decoded(msgspec.Struct, kw_only=True):
    """version: of npu-smi, where the text shows it. With an error the rest is what could still be read for certain."""

    tool: str = ""
    version: str | None = None
    error: Problem | None = None


class Chip(msgspec.Struct, kw_only=True):
    """One NPU chip. card and chip: npu-smi -i and -c; phy, logic: physical and logic id; device: 310P's own number.

    codes: the active codes as 8 hex digits, [] = none active, None = not shown.
    """

    card: int | None = None
    chip: int | None = None
    phy: int | None = None
    logic: int | None = None
    slot: int | None = None
    device: int | None = None
    name: str | None = None
    health: str | None = None
    codes: list[str] | None = None
    power_w: float | None = None
    temp_c: int | None = None
    bus: str | None = None
    aicore_pct: int | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    hbm_used_mb: int | None = None
    hbm_total_mb: int | None = None


class Chips(Decoded, kw_only=True):
    chips: list[Chip] = msgspec.field(default_factory=list)


class Process(msgspec.Struct, kw_only=True):
    """name: cut at 15 bytes by the kernel; None when the tool cannot see the process."""

    pid: int
    name: str | None = None
    memory_mb: int | None = None
    card: int | None = None
    chip: int | None = None


class Processes(Decoded, kw_only=True):
    processes: list[Process] = msgspec.field(default_factory=list)


class Table(Decoded, kw_only=True):
    """`npu-smi info`: the chips and, below them, the processes on them."""

    chips: list[Chip] = msgspec.field(default_factory=list)
    processes: list[Process] = msgspec.field(default_factory=list)
