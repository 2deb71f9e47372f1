"""Ports of the 950 by hccn_tool: several for each chip, each asked by die and port. RoCE ports are those of type ETH.

The vendor documents no -net_health and no -optical for the 950; its network health comes from DCMI.
"""

from __future__ import annotations

import time
from datetime import datetime

import msgspec

from agent.decode import hccn_dev_info, hccn_port, hccn_says, hccn_stat
from agent.decode.hccn_dev_info import DevicePort
from agent.sensors.hccn import Down, Hccn, answer_of, unusable
from agent.sensors.process import ToolError

ROCE, UB = "ETH", "UB"
FLITS = ("tx_busi_flit_num", "rx_busi_flit_num")


class RocePorts(msgspec.Struct, frozen=True):
    """The RoCE ports of a chip as `die/port`. off: without a link and switched off, so nothing is wired to them."""

    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


class Hccn950:
    """The same queue and the same deadlines as all other calls of the tool: they are Hccn's. All raise ToolError."""

    def __init__(self, hccn: Hccn) -> None:
        self._hccn = hccn

    async def roce_ports(self, logic: int) -> RocePorts:
        """Only a port without a link is asked whether it is switched on."""
        up: list[str] = []
        down: list[str] = []
        off: list[str] = []
        for port in await self._ports(logic, ROCE, urgent=True):
            if port.up is None:
                raise ToolError(f"hccn_tool does not know the link of port {name(port)}")
            if port.up:
                up.append(name(port))
            else:
                (down if await self._enabled(logic, port) else off).append(name(port))
        return RocePorts(tuple(up), tuple(down), tuple(off))

    async def link_downs(self, logic: int) -> tuple[Down, ...]:
        """The history of the RoCE port that went down most often: one switch that starts anew is no flapping. The tool
        prints no time of its own here; its records are in local time, as our clock is."""
        most: tuple[Down, ...] = ()
        for port in await self._ports(logic, ROCE, urgent=False):
            output = await self._hccn.ask_950(logic, "-link_stat", *where(port))
            now = datetime.fromtimestamp(time.time())
            downs = [change.at for change in answer_of(hccn_port.parse_link_stat, output).records if not change.up]
            if None in downs:
                raise ToolError(unusable(output))
            found = tuple(
                Down(f"{name(port)} {at}", (now - datetime.fromisoformat(at)).total_seconds()) for at in downs if at
            )
            most = max(most, found, key=len)
        return most

    async def flits(self, logic: int) -> int | None:
        """Sent and received by the UB ports since the start of the device; None without such ports, or counters."""
        ports = await self._ports(logic, UB, urgent=False)
        total = 0
        for port in ports:
            counters = answer_of(hccn_stat.parse, await self._hccn.ask_950(logic, "-stat", *where(port))).counters
            if not counters.keys() >= set(FLITS):
                return None
            total += sum(counters[one] for one in FLITS)
        return total if ports else None

    async def _ports(self, logic: int, kind: str, *, urgent: bool) -> list[DevicePort]:
        """A build of the tool without this command leaves nobody who could tell which ports there are."""
        output = await self._hccn.ask_950(logic, "-dev_info", urgent=urgent)
        said = hccn_says.said([*output.out.splitlines(), *output.err.splitlines()])
        if said is not None and said.code in ("unsupported", "usage"):
            raise ToolError("this hccn_tool has no -dev_info: nobody can tell which ports there are, or their links")
        return [port for port in answer_of(hccn_dev_info.parse, output).ports if port.kind == kind]

    async def _enabled(self, logic: int, port: DevicePort) -> bool:
        output = await self._hccn.ask_950(logic, "-port_info", *where(port), urgent=True)
        return answer_of(hccn_dev_info.parse_port, output).enabled is not False


def name(port: DevicePort) -> str:
    return f"{port.udie}/{port.port}"


def where(port: DevicePort) -> tuple[str, ...]:
    return "-u", str(port.udie), "-p", str(port.port)
