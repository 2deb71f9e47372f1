"""RoCE ports that go down again and again, also between two looks: the link history of hccn_tool.

Ages are differences within one output, so a clock that jumps moves nothing.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.limits import LinkFlap as LinkFlapLimits
from agent.ports import ROUND_TIMEOUT_S, ask_ports
from agent.probe import Observation, Sensors, partly
from agent.sensors.hccn import Hccn

CODE = "NW-LINK-FLAP"


class LinkFlap:
    name = "link_flap"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, limits: LinkFlapLimits) -> None:
        self.period_s = period_s
        self._sensors, self._hccn, self._limits = sensors, hccn, limits

    async def look(self) -> Observation:
        histories, failed = await ask_ports(self._sensors, self._hccn.link_downs)
        chips = tuple(judge(phy, downs_ago_s, self._limits) for phy, downs_ago_s in histories.items())
        return Observation(chips=chips, partly=partly(failed))


def judge(phy: int, downs_ago_s: tuple[float, ...], limits: LinkFlapLimits) -> ChipFinding:
    """A record from the future is of a clock that was wrong then, and counts as old."""
    downs = sum(0 <= ago_s < limits.window_s for ago_s in downs_ago_s)
    active = downs >= limits.downs
    return ChipFinding(phy, CODE, active, {"downs": f"{downs} in {limits.window_s:g} s"} if active else {})


def make(config: AgentConfig, sensors: Sensors) -> LinkFlap | None:
    if sensors.hccn is None:
        return None
    return LinkFlap(config.poll.links_s, sensors, sensors.hccn, config.probes.link_flap)
