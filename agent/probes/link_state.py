"""RoCE port of every chip: up, down, or not to be told, one chip after the other."""

from __future__ import annotations

from agent.config import AgentConfig
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, chips_with_ports
from agent.probe import Observation, Sensors
from agent.sensors.hccn import Hccn


class LinkState:
    name = "link_state"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn

    async def look(self) -> Observation:
        chips = chips_with_ports(self._sensors)
        return Observation(links=tuple([await self._hccn.link(phy) for phy in chips]))


def make(config: AgentConfig, sensors: Sensors) -> LinkState | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    return LinkState(config.poll.links_s, sensors, sensors.hccn)
