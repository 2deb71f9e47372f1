"""RoCE port of every chip: up, down, or not to be told, one chip after the other."""

from __future__ import annotations

import time

from agent.config import AgentConfig
from agent.detect.readings import LinkReading
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, chips_with_ports
from agent.probe import Observation, Sensors
from agent.sensors.hccn import Hccn

MARGIN_S = 70.0
"""So long before its time is over the round asks no more: the call in flight may wait for one of each other probe."""


class LinkState:
    name = "link_state"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn
        self._unasked: list[int] = []

    async def look(self) -> Observation:
        """Those first that the last round had no time for."""
        chips = sorted(chips_with_ports(self._sensors), key=lambda phy: phy not in self._unasked)
        links: list[LinkReading] = []
        round_s = self.timeout_s - MARGIN_S
        until = time.monotonic() + round_s
        while len(links) < len(chips) and time.monotonic() < until:
            links.append(await self._hccn.link(chips[len(links)]))
        self._unasked = chips[len(links) :]
        why = f"hccn_tool had not come to it when the {round_s:g} s of this round were over"
        links += [LinkReading(phy, None, why) for phy in self._unasked]
        return Observation(links=tuple(links))


def make(config: AgentConfig, sensors: Sensors) -> LinkState | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    return LinkState(config.poll.links_s, sensors, sensors.hccn)
