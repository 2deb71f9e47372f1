"""Health and active fault codes of every chip, from the driver."""

from __future__ import annotations

from agent.config import AgentConfig
from agent.probe import Observation, Sensors

TIMEOUT_S = 120.0
"""Far above the sum of the sensor's own deadlines (init, a hung chip, a replacement): those say more when they pass."""


class ChipHealth:
    name = "chip_health"
    timeout_s = TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors) -> None:
        self.period_s = period_s
        self._sensors = sensors

    async def look(self) -> Observation:
        return Observation(driver=await self._sensors.chips.poll())


def make(config: AgentConfig, sensors: Sensors) -> ChipHealth:
    return ChipHealth(config.poll.chips_s, sensors)
