"""`hccn_tool -ip|-gateway|-lldp|-ping -g`: a port's addresses and neighbour, and whether another port answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address

import msgspec

from agent.decode.hccn_says import only, required
from agent.decode.records import Decoded, Problem
from agent.decode.text import ParseError, known, quoted, real, whole

_IP = re.compile(r"ipaddr:\s*(\S+)")
_MASK = re.compile(r"netmask:\s*(\S+)")
_GATEWAY = re.compile(r"default gateway:\s*(\S+), Iface:\s*(\S+)")
_TLV = re.compile(r"(\S.*) TLV(?: \([0-9]+\))?")
_PING = re.compile(r"device ([0-9]+) PING6? (\S+)")
_REPLY = re.compile(r"recv seq=([0-9]+),\s*time=([0-9.]+)\s*ms")
_LOST = re.compile(r"recv time out seq=([0-9]+)")
_SUMMARY = re.compile(r"([0-9]+) packets transmitted, ([0-9]+) received, ([0-9.]+)% packet loss")

PING_ENDS = re.compile(r"% packet loss$")


class Ip(Decoded, kw_only=True):
    ip: str | None = None
    netmask: str | None = None


class Gateway(Decoded, kw_only=True):
    gateway: str | None = None
    interface: str | None = None


class Lldp(Decoded, kw_only=True):
    """The switch at the other end: the name of its port and its own name."""

    port: str | None = None
    system: str | None = None


class Reply(msgspec.Struct, kw_only=True):
    """time_ms is None when no reply came."""

    seq: int | None
    time_ms: float | None


class Ping(Decoded, kw_only=True):
    """device: the physical id it was sent from."""

    device: int | None = None
    address: str | None = None
    sent: int | None = None
    received: int | None = None
    loss_pct: float | None = None
    replies: list[Reply] = msgspec.field(default_factory=list)


def parse_ip(lines: Sequence[str]) -> Ip:
    """Raises ParseError."""
    ip = _address(required(_IP, lines, "ipaddr")[1])
    mask = only(_MASK, lines, "netmask")
    answer = Ip(ip=ip, netmask=mask[1] if mask else None)
    if mask is None:
        answer.error = Problem("truncated", "the netmask is missing")
    return answer


def parse_gateway(lines: Sequence[str]) -> Gateway:
    """Raises ParseError."""
    found = required(_GATEWAY, lines, "default gateway")
    return Gateway(gateway=_address(found[1]), interface=found[2])


def parse_lldp(lines: Sequence[str]) -> Lldp:
    """A heading for each TLV, its value indented below. Raises ParseError."""
    told: dict[str, str] = {}
    heading = ""
    for line in lines:
        if found := _TLV.fullmatch(line):
            heading = found[1]
            if heading in told:
                raise ParseError(f"two neighbours in one text: {quoted(lines)}")
        elif heading and (not line or line[0].isspace()):  # an empty line is an empty value
            told.setdefault(heading, line.strip())
    if not heading:
        raise ParseError(f"no LLDP neighbour in this text: {quoted(lines)}")
    port = told.get("Port ID", "").removeprefix("Ifname:").strip()
    answer = Lldp(port=known(port), system=known(told.get("System Name")))
    if heading not in told:
        answer.error = Problem("truncated", f"the value of {heading} is missing")
    return answer


def parse_ping(lines: Sequence[str]) -> Ping:
    """Raises ParseError."""
    start = required(_PING, lines, "ping")
    answer = Ping(device=whole(start[1]), address=_address(start[2]), replies=[])
    for line in map(str.strip, lines):
        if reply := _REPLY.fullmatch(line):
            answer.replies.append(Reply(seq=whole(reply[1]), time_ms=real(reply[2])))
        elif lost := _LOST.fullmatch(line):
            answer.replies.append(Reply(seq=whole(lost[1]), time_ms=None))
    summary = only(_SUMMARY, lines, "ping")
    if summary is None:
        answer.error = Problem("truncated", "the ping stops before its summary")
    else:
        answer.sent, answer.received, answer.loss_pct = whole(summary[1]), whole(summary[2]), real(summary[3])
    return answer


def _address(word: str) -> str:
    try:
        return str(ip_address(word))
    except ValueError as exc:
        raise ParseError(f"{word!r} is no IP address") from exc
