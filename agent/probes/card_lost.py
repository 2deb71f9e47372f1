"""NPUs on the PCI bus: a change there makes the driver's list suspect, which is frozen when the library starts.

The bus goes into every poll of the driver (readings.DriverReading.pci); which card is lost is decided there. An NPU
that is bound to vfio belongs to a virtual machine: it is left out, and named in the report.
"""

from __future__ import annotations

import logging

from agent.config import AgentConfig
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors

log = logging.getLogger(__name__)


class CardLost:
    name = "card_lost"
    timeout_s = 10.0

    def __init__(self, period_s: float, sensors: Sensors) -> None:
        self.period_s = period_s
        self._sensors = sensors
        self._thread = OwnThread("the PCI bus in sysfs")

    async def look(self) -> Observation:
        bus = self._sensors.bus
        seen = await self._thread.run(bus.read)
        before, passed = bus.npus, bus.passed_through
        now = bus.take(seen)
        if now is None:
            raise CannotLook(f"the PCI bus cannot be read: {bus.error}")
        if before is not None and now != before:
            gone, new = sorted(before - now), sorted(now - before)
            log.warning("NPUs on the PCI bus changed (gone %s, new %s); the driver is enumerated anew", gone, new)
            for address in sorted(bus.passed_through - passed):
                log.warning("NPU %s is bound to vfio: it belongs to a virtual machine and is not watched", address)
            self._sensors.chips.renew()
        return Observation()


def make(config: AgentConfig, sensors: Sensors) -> CardLost:
    return CardLost(config.poll.host_s, sensors)
