"""RoCE port state by `hccn_tool`: link only. A tool that fails says nothing about the link: unknown, never down."""

from __future__ import annotations

from pathlib import Path

from agent.detect.readings import LinkReading
from agent.sensors.process import Output, Tool, ToolError

PLACES = ("/usr/local/Ascend/driver/tools/hccn_tool", "/usr/bin/hccn_tool")
TIMEOUT_S = 10.0
STATES = {"UP": True, "DOWN": False}
MAX_TEXT = 120


class Hccn:
    """One call at a time; the tool waits up to 300 s for a device that is not ready, so its deadline is ours."""

    def __init__(self, path: Path, *, lock: Path | None, timeout_s: float = TIMEOUT_S) -> None:
        self._tool = Tool(path, timeout_s=timeout_s, lock=lock)

    async def link(self, phy: int) -> LinkReading:
        """`hccn_tool -i <physical id> -link -g` (910A, 910B, A3)."""
        try:
            output = await self._tool.run("-i", str(phy), "-link", "-g")
        except ToolError as exc:
            return LinkReading(phy, None, str(exc))
        return parse_link(phy, output)


def parse_link(phy: int, output: Output) -> LinkReading:
    """`link status: UP` or `DOWN`, three words; anything else is unknown. Errors stand on stdout or stderr."""
    for line in output.out.splitlines():
        words = line.split()
        if len(words) == 3 and words[:2] == ["link", "status:"] and words[2] in STATES and output.code == 0:
            return LinkReading(phy, STATES[words[2]])
    said = " ".join((output.out + " " + output.err).split())[:MAX_TEXT]
    return LinkReading(phy, None, f"hccn_tool ended with {output.code}: {said or 'no output'}")
