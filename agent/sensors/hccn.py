"""RoCE ports by `hccn_tool`. A tool that fails says nothing about the port: unknown, never a fault.

Calls are `hccn_tool -i <physical id> -<command> -g` (910A, 910B, A3).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from agent.decode import hccn_port
from agent.decode.text import ParseError
from agent.detect.readings import LinkReading
from agent.sensors import hccn_parse
from agent.sensors.hccn_parse import LinkHistory, Module
from agent.sensors.process import Output, Tool, ToolError

PLACES = ("/usr/local/Ascend/driver/tools/hccn_tool", "/usr/bin/hccn_tool")
TIMEOUT_S = 10.0


class Hccn:
    """One call at a time; the tool waits up to 300 s for a device that is not ready, so its deadline is ours."""

    def __init__(self, path: Path, *, lock: Path | None, timeout_s: float = TIMEOUT_S) -> None:
        self._tool = Tool(path, timeout_s=timeout_s, lock=lock)

    async def link(self, phy: int) -> LinkReading:
        try:
            output = await self._ask(phy, "-link")
        except ToolError as exc:
            return LinkReading(phy, None, str(exc))
        return parse_link(phy, output)

    async def link_stat(self, phy: int) -> LinkHistory:
        """The newest changes of the link. Raises ToolError."""
        return hccn_parse.link_stat(await self._ask(phy, "-link_stat"))

    async def net_health(self, phy: int) -> str:
        """What the chip's own detection of its network says, in the tool's words. Raises ToolError."""
        return hccn_parse.net_health(await self._ask(phy, "-net_health"))

    async def optical(self, phy: int) -> Module:
        """The optical module. Reading clears its flags, so there must be one reader only. Raises ToolError."""
        return hccn_parse.optical(await self._ask(phy, "-optical"))

    async def _ask(self, phy: int, command: str) -> Output:
        return await self._tool.run("-i", str(phy), command, "-g")


def parse_link(phy: int, output: Output) -> LinkReading:
    """`link status: UP` or `DOWN`; anything else is unknown. Errors stand on stdout or stderr."""
    if output.code == 0:
        with contextlib.suppress(ParseError):
            return LinkReading(phy, hccn_port.parse_link(output.out.splitlines()).up)
    return LinkReading(phy, None, hccn_parse.unusable(output))
