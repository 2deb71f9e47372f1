"""`hccn_tool -link|-link_stat|-net_health|-speed|-fec -g`: the state of a network port. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from agent.decode.hccn_says import grid, only, required
from agent.decode.records import Decoded, Problem
from agent.decode.text import ParseError, known, pairs, quoted, whole

LINK = re.compile(r"link status: (UP|DOWN)")
_SPEED = re.compile(r"Speed: (?:(-?[0-9]+) Mb/s|Unknown!)")
_NET_HEALTH = re.compile(r"net health status: (\S.*)")
_FEC = re.compile(r"fec mode: (\S.*)")
_PREFIX = re.compile(r"\[dev(?:id|ice) ([0-9]+)\]\s*")
_RECORD = re.compile(r"\w{3} ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) ([0-9]{4})")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CHANGES = {"LINK UP": True, "LINK DOWN": False, "LINK_UP": True, "LINK_DOWN": False}
_RS_MODE = re.compile(r"[0-9]+ T[0-9]+")
_GBPS = re.compile(r"([0-9]{1,6}) G")

HEALTHY = {"Success": True, "Init": True, "Unknown": None}
"""Init: no detection address is set. Every other status is a fault of the way to that address."""
FEC = {"rs FEC mode": True, "no FEC mode": False}

ENDS = re.compile(
    r"link status: (UP|DOWN)$|Mb/s$|Unknown!$|FEC mode$|^\+[-+]*\+$"
    r"|net health status: (Success|Socket failed|Receive timeout|Unreachable|Time exceeded|Fault|Init|Thread error"
    r"|Detect ip set|Unknown)$"
)


class Link(Decoded, kw_only=True):
    up: bool | None = None


class Change(msgspec.Struct, kw_only=True):
    """at: local time of the host, ISO 8601 without a zone, as the tool knows none; None = it cannot be read."""

    at: str | None
    up: bool


class LinkStat(Decoded, kw_only=True):
    """records: the newest first, at most 10."""

    device: int | None = None
    udie: int | None = None
    port: int | None = None
    now: str | None = None
    up_count: int | None = None
    down_count: int | None = None
    records: list[Change] = msgspec.field(default_factory=list)


class NetHealth(Decoded, kw_only=True):
    """status: the tool's words. healthy: None when the tool does not know."""

    status: str | None = None
    healthy: bool | None = None


class PortRow(msgspec.Struct, kw_only=True):
    """950: one row, by the names of its columns."""

    npu: int | None
    udie: int | None
    port: int | None
    values: dict[str, str | None]


class Speed(Decoded, kw_only=True):
    """None when the port is down. ports: 950."""

    speed_mbps: int | None = None
    ports: list[PortRow] = msgspec.field(default_factory=list)


class Fec(Decoded, kw_only=True):
    """mode: the tool's words. enabled: None for auto. ports: 950."""

    mode: str | None = None
    enabled: bool | None = None
    ports: list[PortRow] = msgspec.field(default_factory=list)


def parse_link(lines: Sequence[str]) -> Link:
    """Raises ParseError."""
    return Link(up=required(LINK, lines, "link status")[1] == "UP")


def parse_net_health(lines: Sequence[str]) -> NetHealth:
    """Raises ParseError."""
    status = required(_NET_HEALTH, lines, "net health status")[1]
    return NetHealth(status=status, healthy=HEALTHY.get(status, False))


def parse_speed(lines: Sequence[str]) -> Speed:
    """Raises ParseError."""
    ports = _rows(lines, "Speed")
    if len(ports) == 1:
        gbps = _GBPS.fullmatch(ports[0].values["Speed"] or "")
        return Speed(speed_mbps=int(gbps[1]) * 1000 if gbps else None, ports=ports)
    return Speed(speed_mbps=whole(required(_SPEED, lines, "speed")[1]), ports=[])


def parse_fec(lines: Sequence[str]) -> Fec:
    """Raises ParseError."""
    ports = _rows(lines, "rs_mode")
    if len(ports) == 1:
        mode = ports[0].values["rs_mode"]
        return Fec(mode=mode, enabled=True if _RS_MODE.match(mode or "") else None, ports=ports)
    word = required(_FEC, lines, "fec mode")[1]
    return Fec(mode=word, enabled=FEC.get(word), ports=[])


def parse_link_stat(lines: Sequence[str]) -> LinkStat:
    """Two forms: lines with `[devid N]` before them, and on 950 a table. Raises ParseError."""
    devices = {found[1] for line in lines if (found := _PREFIX.match(line))}
    plain = [_PREFIX.sub("", line.strip()) for line in lines]
    if len(devices) > 1 or only(re.compile(r"link up count\s*:.*"), plain, "link up count") is None:
        many = f"{len(devices)} devices in one text" if devices else "no link records in this text"
        raise ParseError(f"{many}: {quoted(lines)}")
    told = dict(pairs(plain))
    answer = LinkStat(
        device=whole(next(iter(devices), None)),
        now=_time(told.get("current time", "")),
        up_count=whole(told.get("link up count")),
        down_count=whole(told.get("link down count")),
        records=[],
    )
    table = any(line.lstrip().startswith("|") for line in lines)
    for row in grid(lines):
        answer.device, answer.udie, answer.port = (whole(row.get(name)) for name in ("NPU", "UDie", "Port"))
        if row.get("Link_Status") in _CHANGES:
            answer.records.append(Change(at=_time(row.get("Time_Stamp", "")), up=_CHANGES[row["Link_Status"]]))
    for line in plain:
        at, _, change = line.rpartition("    ")
        if not table and change.strip() in _CHANGES:
            answer.records.append(Change(at=_time(at.strip()), up=_CHANGES[change.strip()]))
    last = next(line for line in reversed(lines) if line.strip())
    if table and not answer.records and (answer.up_count or answer.down_count):
        answer.error = Problem("truncated", "the link records stop before the first, and there are some")
    elif not last.lstrip().startswith("+") if table else "link change records" not in told:
        answer.error = Problem("truncated", "the link records stop before their end")
    return answer


def _rows(lines: Sequence[str], column: str) -> list[PortRow]:
    """Raises ParseError for several ports: there is one value to give."""
    rows = [row for row in grid(lines) if column in row]
    if len(rows) > 1:
        raise ParseError(f"{len(rows)} ports in one text: decode one port's output at a time")
    return [
        PortRow(
            npu=whole(row.get("NPU")),
            udie=whole(row.get("UDie")),
            port=whole(row.get("Port")),
            values={name: known(value) for name, value in row.items() if name not in {"NPU", "UDie", "Port"}},
        )
        for row in rows
    ]


def _time(text: str) -> str | None:
    """`Tue Aug  1 14:43:40 2022` as ISO 8601."""
    found = _RECORD.fullmatch(text)
    if found is None or found[1] not in _MONTHS:
        return None
    month, (day, hour, minute, second, year) = _MONTHS.index(found[1]) + 1, map(int, found.groups()[1:])
    try:
        return datetime(year, month, day, hour, minute, second).isoformat()
    except ValueError:  # no such day
        return None
