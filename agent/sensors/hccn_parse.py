"""What `hccn_tool` prints about link history, network health and optical module, as values. Pure.

Formats: hccn_tool of the driver sources (910B); older builds leave lines out. What is not there is None, never 0.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from agent.sensors.process import Output, ToolError

MAX_TEXT = 120
STAMP = "%a %b %d %H:%M:%S %Y"
"""Local time of the host, without a zone: only differences within one output mean anything."""

_CHANGE = re.compile(r"\[dev(?:id|ice) \d+\]\s+(\w.*?)\s+LINK (UP|DOWN)\s*$")
_NOW = re.compile(r"\[dev(?:id|ice) \d+\]current time\s*:\s*(.+?)\s*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
NO_MODULE = "Optical module is not present"
FLAGS = ("Tx Los Flag", "Rx Los Flag", "Tx LoL Flag", "Rx LoL Flag")


class LinkHistory(msgspec.Struct, frozen=True):
    """Seconds ago of each LINK DOWN that the tool still shows, newest first."""

    downs_ago_s: tuple[float, ...]


class Module(msgspec.Struct, frozen=True):
    """The optical module. tx_mw, rx_mw: power of each lane; limits: low and high of the module itself, (tx, rx).
    flags: the loss-of-signal and loss-of-lock registers that are not 0."""

    present: bool
    serial: str | None = None
    tx_mw: tuple[float, ...] = ()
    rx_mw: tuple[float, ...] = ()
    tx_limits_mw: tuple[float, float] | None = None
    rx_limits_mw: tuple[float, float] | None = None
    flags: tuple[str, ...] = ()


def unusable(output: Output) -> str:
    """Why this output is no answer. Errors stand on stdout or stderr."""
    said = " ".join((output.out + " " + output.err).split())[:MAX_TEXT]
    return f"hccn_tool ended with {output.code}: {said or 'no output'}"


def link_stat(output: Output) -> LinkHistory:
    """Raises ToolError."""
    shown_at: datetime | None = None
    downs: list[datetime] = []
    try:
        for line in output.out.splitlines() if output.code == 0 else ():
            if found := _NOW.match(line):
                shown_at = datetime.strptime(found[1], STAMP)
            elif (found := _CHANGE.match(line)) and found[2] == "DOWN":
                downs.append(datetime.strptime(found[1], STAMP))
    except ValueError as exc:
        raise ToolError(f"hccn_tool -link_stat: {exc}") from exc
    if shown_at is None:
        raise ToolError(unusable(output))
    return LinkHistory(tuple((shown_at - down).total_seconds() for down in downs))


def net_health(output: Output) -> str:
    """Raises ToolError."""
    for line in output.out.splitlines() if output.code == 0 else ():
        key, _, word = line.partition(":")
        if key.strip() == "net health status" and word.strip():
            return word.strip()
    raise ToolError(unusable(output))


def optical(output: Output) -> Module:
    """Some builds only say that there is no module. Raises ToolError."""
    if NO_MODULE in output.out or NO_MODULE in output.err:
        return Module(present=False)
    rows: dict[str, str] = {}
    for line in output.out.splitlines() if output.code == 0 else ():
        key, colon, value = line.partition(":")
        if colon:
            rows[key.strip()] = value.strip()
    if rows.get("present") not in ("present", "not present"):
        raise ToolError(unusable(output))
    if rows["present"] != "present":
        return Module(present=False)
    return Module(
        present=True,
        serial=rows.get("vendor serial number") or None,
        tx_mw=_lanes(rows, "Tx"),
        rx_mw=_lanes(rows, "Rx"),
        tx_limits_mw=_limits(rows, "TxPower"),
        rx_limits_mw=_limits(rows, "RxPower"),
        flags=tuple(f"{name} {rows[name]}" for name in FLAGS if _is_set(rows.get(name, ""))),
    )


def _lanes(rows: dict[str, str], side: str) -> tuple[float, ...]:
    """Lanes that a module does not have are NA."""
    powers = (_mw(value) for key, value in rows.items() if re.fullmatch(rf"{side} Power\d+", key))
    return tuple(power for power in powers if power is not None)


def _mw(text: str) -> float | None:
    found = _NUMBER.match(text)
    return float(found[0]) if found else None


def _limits(rows: dict[str, str], name: str) -> tuple[float, float] | None:
    low, high = (_mw(rows.get(f"{name} {end} Thres", "")) for end in ("Low", "High"))
    return None if low is None or high is None or low >= high else (low, high)


def _is_set(register: str) -> bool:
    return re.fullmatch(r"0x0*[1-9a-fA-F][0-9a-fA-F]*", register) is not None
