"""`hccn_tool -g -dev_info -i N` and `-port_info -u DIE -p PORT`: the ports of a 950 chip. Pure.

A 950 has several ports on each die, for Ethernet (RoCE) or UB. Tables of addresses follow the one of the ports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.hccn_says import required
from agent.decode.records import Decoded
from agent.decode.text import ParseError, cells, quoted, whole

COLUMNS = ("UDie ID", "Port ID", "Port Type", "Link Status")
_LINK = {"UP": True, "DOWN": False}
_ENABLED = re.compile(r"port_enable: *(on|off)")
RULE = re.compile(r"\+[-+]+\+")


class DevicePort(msgspec.Struct, kw_only=True, frozen=True):
    """kind: the tool's word, ETH or UB. up: None = the tool does not know."""

    udie: int
    port: int
    kind: str
    up: bool | None = None


class DevInfo(Decoded, kw_only=True):
    ports: list[DevicePort] = msgspec.field(default_factory=list)


class PortInfo(Decoded, kw_only=True):
    """enabled: False = the port is switched off, nothing is wired to it."""

    enabled: bool | None = None


def parse(lines: Sequence[str]) -> DevInfo:
    """Raises ParseError, also for a table that is cut: a port that is left out would look well."""
    headers = [number for number, line in enumerate(lines) if set(COLUMNS) <= set(cells(line))]
    if len(headers) != 1:
        raise ParseError(f"{len(headers)} tables of ports in this text, expected one chip's: {quoted(lines)}")
    names = cells(lines[headers[0]])
    ports: list[DevicePort] = []
    for line in map(str.strip, lines[headers[0] + 1 :]):
        if line.startswith("|"):
            ports.append(_port(dict(zip(names, cells(line), strict=False)), line))
        elif RULE.fullmatch(line) and ports:
            return DevInfo(ports=ports)
    raise ParseError("the table of ports stops before its end")


def _port(row: dict[str, str], line: str) -> DevicePort:
    udie, port = whole(row.get("UDie ID")), whole(row.get("Port ID"))
    if udie is None or port is None or not row.get("Port Type"):
        raise ParseError(f"no port: {quoted([line])}")
    return DevicePort(udie=udie, port=port, kind=row["Port Type"], up=_LINK.get(row.get("Link Status", "")))


def parse_port(lines: Sequence[str]) -> PortInfo:
    """Raises ParseError."""
    return PortInfo(enabled=required(_ENABLED, lines, "port_enable")[1] == "on")
