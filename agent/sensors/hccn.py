"""RoCE ports by `hccn_tool`. A tool that fails says nothing about the port: unknown, never a fault.

Calls are `hccn_tool -i <physical id> -<command> -g` (910A, 910B, A3); what they print is read by agent.decode. The 950
has another dialect: `hccn_tool -g -<command> -i <logic id> [-u <die> -p <port>]`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from agent.decode import hccn_address, hccn_optical, hccn_port, hccn_says, hccn_stat, hccn_ub
from agent.decode.hccn_optical import Optical
from agent.decode.hccn_port import NetHealth
from agent.decode.records import Decoded
from agent.decode.text import ParseError
from agent.detect.readings import LinkReading
from agent.sensors.gauges import UbPorts
from agent.sensors.process import Output, TimedOut, Tool, ToolError
from agent.sensors.turns import MOST_AT_ONCE, Pace, Turns

log = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=Decoded)

PLACES = ("/usr/local/Ascend/driver/tools/hccn_tool", "/usr/bin/hccn_tool")
TIMEOUT_S = 10.0
LEFT_ALONE_S = 300.0
"""A chip that is not ready costs the whole time-out with every command, and all chips share few places."""
BUSY = "hccn_tool is busy"
OPTICAL = "optical"
"""Modules are read one at a time: two dies of an A3 share one, and with it the latched flags."""
MAX_TEXT = 120


class Down(msgspec.Struct, frozen=True):
    """A port went down: the tool's own words for when, and how long ago that is by the clock of the same output."""

    stamp: str
    ago_s: float


class Hccn:
    """One call at a time for each chip, and as few at once as keep all links looked at in time (Pace). Links go before
    everything else. The tool waits up to 300 s for a device that is not ready, so its deadline is ours: a chip that let
    it pass is left alone for a while, by all commands, and the other ports do not wait for it again and again.
    """

    def __init__(self, path: Path, *, lock: Path | None, timeout_s: float = TIMEOUT_S) -> None:
        locks = [lock and (lock.with_name(f"{lock.name}.{n}") if n else lock) for n in range(MOST_AT_ONCE)]
        self._places = [Tool(path, timeout_s=timeout_s, lock=one) for one in locks]
        self.pace = Pace()
        self._turns = Turns()
        self._asked: set[int] = set()
        self._left_until: dict[int, float] = {}

    async def link(self, phy: int) -> LinkReading:
        try:
            return LinkReading(phy, parse_link(await self._urgent(phy, "-i", str(phy), "-link", "-g")))
        except ToolError as exc:
            return LinkReading(phy, None, str(exc))

    async def link_downs(self, phy: int) -> tuple[Down, ...]:
        """Each LINK DOWN that the tool still shows, newest first. Raises ToolError."""
        return parse_link_downs(await self._ask(phy, "-link_stat"))

    async def net_health(self, phy: int) -> NetHealth:
        """What the chip's own detection of its network says. Raises ToolError."""
        return parse_net_health(await self._ask(phy, "-net_health"))

    async def reaches(self, phy: int, address: str) -> bool:
        """Whether the port at this IPv4 address answers any of the tool's pings (three). Raises ToolError."""
        try:
            return parse_reached(await self._call(phy, "-i", str(phy), "-ping", "-g", "address", address))
        except TimedOut:
            self._left_until.pop(phy, None)  # a peer that is silent takes time too: that says nothing of this chip
            raise

    async def optical(self, phy: int) -> Optical:
        """The optical module. Reading clears its flags, so there must be one reader only. Raises ToolError."""
        return parse_optical(await self._call(phy, "-i", str(phy), "-optical", "-g", also=OPTICAL))

    async def ub_ports(self, logic: int) -> UbPorts:
        """The UB ports of a 950, which the tool names by logic id. Raises ToolError."""
        return parse_ub_ports(await self.ask_950(logic, "-ub_connect"))

    async def stat(self, phy: int) -> dict[str, int]:
        """Packet counters since the start of the device, by the tool's names. Raises ToolError."""
        return answer_of(hccn_stat.parse, await self._ask(phy, "-stat")).counters

    async def ask_950(self, logic: int, command: str, *where: str, urgent: bool = False) -> Output:
        """One call in the 950's dialect; `where`: die and port. Raises ToolError."""
        args = ("-g", command, "-i", str(logic), *where)
        return await (self._urgent(logic, *args) if urgent else self._call(logic, *args))

    async def _ask(self, phy: int, command: str) -> Output:
        return await self._call(phy, "-i", str(phy), command, "-g")

    async def _urgent(self, chip: int, *args: str) -> Output:
        """About a link: first in the queue, and the measure of how many calls are made at once."""
        self._asked.add(chip)
        return await self._call(chip, *args, urgent=True)

    async def _call(self, chip: int, *args: str, urgent: bool = False, also: str = "") -> Output:
        """A second time, alone, when the tool was busy with what else we had asked it."""
        output, beside = await self._once(chip, *args, urgent=urgent, also=also)
        if not beside or BUSY not in output.out + output.err:
            return output
        log.warning("hccn_tool does not bear several calls at once: one at a time from now on (%s)", " ".join(args))
        self.pace.busy(time.monotonic())
        self._turns.width = 1
        return (await self._once(chip, *args, urgent=urgent, also=also))[0]

    async def _once(self, chip: int, *args: str, urgent: bool, also: str) -> tuple[Output, bool]:
        """The output, and whether other calls ran beside it. Whether the chip is left alone is known only when it is
        our turn: all queue up behind the first."""
        async with self._turns.take(chip, *([also] if also else []), urgent=urgent) as place:
            left_s = self._left_until.get(chip, 0.0) - time.monotonic()
            if left_s > 0:
                raise ToolError(f"hccn_tool had no answer from it in time; left alone for {left_s:.0f} s more")
            hung = next((pid for tool in self._places if (pid := tool.hanging) is not None), None)
            if hung is not None:
                raise ToolError(f"a hccn_tool (pid {hung}) hangs and cannot be killed; none is started beside it")
            beside, began = self._turns.running > 1, time.monotonic()
            try:
                output = await self._places[place].run(*args)
            except TimedOut:
                self._left_until[chip] = time.monotonic() + LEFT_ALONE_S
                raise
            if urgent:
                self.pace.took(time.monotonic() - began)
                self._turns.width = self.pace.width(len(self._asked), time.monotonic())
            return output, beside or self._turns.running > 1


def parse_link(output: Output) -> bool | None:
    """Raises ToolError."""
    return answer_of(hccn_port.parse_link, output).up


def parse_link_downs(output: Output) -> tuple[Down, ...]:
    """Ages are differences within one output, whose clock is local and has no zone. Raises ToolError, also when a
    time cannot be read: a DOWN that is left out would make a port that flaps look calm."""
    stat = answer_of(hccn_port.parse_link_stat, output)
    downs = [change.at for change in stat.records if not change.up]
    if stat.now is None or None in downs:
        raise ToolError(unusable(output))
    now = datetime.fromisoformat(stat.now)
    return tuple(Down(at, (now - datetime.fromisoformat(at)).total_seconds()) for at in downs if at is not None)


def parse_net_health(output: Output) -> NetHealth:
    """Raises ToolError."""
    return answer_of(hccn_port.parse_net_health, output)


def parse_reached(output: Output) -> bool:
    """What the summary says counts, whatever the exit code: a ping without a reply may end with an error.
    Raises ToolError."""
    try:
        ping = hccn_address.parse_ping(output.out.splitlines())
    except ParseError as exc:
        raise ToolError(unusable(output)) from exc
    if ping.error is not None or not ping.sent or ping.received is None:
        raise ToolError(unusable(output))
    return ping.received > 0


def parse_ub_ports(output: Output) -> UbPorts:
    """Raises ToolError."""
    ports = answer_of(hccn_ub.parse, output).ports
    down, narrow = (tuple(n for n, word in ports.items() if word == what) for what in ("DOWN", "PARTIAL UP"))
    return UbPorts(down, narrow, alone=len(down) == len(ports))


def parse_optical(output: Output) -> Optical:
    """Some builds only say that there is no module, and as an error. Raises ToolError."""
    if hccn_optical.ABSENT in output.out or hccn_optical.ABSENT in output.err:
        return Optical(present=False)
    return answer_of(hccn_optical.parse, output)


def answer_of(parse: Callable[[Sequence[str]], Answer], output: Output) -> Answer:
    """The whole answer of a tool that ended well and printed no error. Raises ToolError."""
    lines = output.out.splitlines()
    if output.code != 0 or hccn_says.said(lines) is not None:
        raise ToolError(unusable(output))
    try:
        answer = parse(lines)
    except ParseError as exc:
        raise ToolError(unusable(output)) from exc
    if answer.error is not None:
        raise ToolError(unusable(output))
    return answer


def unusable(output: Output) -> str:
    """Why this output is no answer. Errors stand on stdout or stderr."""
    said = " ".join((output.out + " " + output.err).split())[:MAX_TEXT]
    return f"hccn_tool ended with {output.code}: {said or 'no output'}"
