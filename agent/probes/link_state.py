"""RoCE port of every chip: up, down, or not to be told, one chip after the other."""

from __future__ import annotations

from agent.config import AgentConfig
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.hccn import TIMEOUT_S, Hccn

MAX_CHIPS = 16
OTHER_DIALECT = "950"
"""There the tool asks for a die and a port."""


class LinkState:
    name = "link_state"
    timeout_s = MAX_CHIPS * TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn

    async def look(self) -> Observation:
        if self._sensors.bus.generation == OTHER_DIALECT:
            raise CannotLook("the ports of the 950 are not looked at")
        chips = sorted(self._sensors.chips.enumeration.chips)
        return Observation(links=tuple([await self._hccn.link(phy) for phy in chips]))


def make(config: AgentConfig, sensors: Sensors) -> LinkState | None:
    if sensors.hccn is None:
        return None
    return LinkState(config.poll.links_s, sensors, sensors.hccn)
