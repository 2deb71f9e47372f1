"""Health and active fault codes of every chip, from the driver, beside how many chips this kind of host should have."""

from __future__ import annotations

from msgspec.structs import replace

from agent.config import AgentConfig, Inventory
from agent.probe import Observation, Sensors

TIMEOUT_S = 120.0
"""Far above the sum of the sensor's own deadlines (init, a hung chip, a replacement): those say more when they pass."""


class ChipHealth:
    name = "chip_health"
    timeout_s = TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, inventory: Inventory) -> None:
        self.period_s = period_s
        self._sensors, self._inventory = sensors, inventory

    async def look(self) -> Observation:
        reading = await self._sensors.chips.poll()
        return Observation(driver=replace(reading, expected=self._inventory.expected(self._sensors.bus.generation)))


def make(config: AgentConfig, sensors: Sensors) -> ChipHealth:
    return ChipHealth(config.poll.chips_s, sensors, config.inventory)
