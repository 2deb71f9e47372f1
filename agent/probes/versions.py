"""Driver and firmware: whether the driver says that they fit, and whether all chips have the same firmware (DCMI).

The driver compares its own list of versions with the chip's (get_device_compatibility, root only). The firmware's
version goes into the report beside the driver's.
"""

from __future__ import annotations

import time
from collections import Counter

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding, NodeFinding
from agent.measuring import PERIOD_S, TIMEOUT_S, measured
from agent.probe import Observation, Sensors
from agent.sensors.gauges import Gauges, Measured, fits, version

MISFIT, MIXED = "NW-FIRMWARE", "NW-FIRMWARE-MIXED"
ASK_AGAIN_S = 600.0
"""A new firmware comes with a reset of the chip, and that with another enumeration."""
FIT, FIRST_VERSION = 0, 1


class Versions:
    name = "versions"
    period_s = PERIOD_S
    timeout_s = TIMEOUT_S

    def __init__(self, gauges: Gauges, sensors: Sensors) -> None:
        self._gauges, self._sensors = gauges, sensors
        self._asked: object = None
        self._again_at = 0.0

    async def look(self) -> Observation:
        enumeration, mono = self._sensors.chips.enumeration, time.monotonic()
        if enumeration is self._asked and mono < self._again_at:
            return Observation()
        chips, _ = await measured(self._gauges, "versions")
        firmware = {one.chip.phy: found for one in chips if (found := firmware_of(one)) is not None}
        findings: list[ChipFinding] = []
        for one in chips:
            fit = fits(one.words(FIT))
            if fit is not None:
                evidence = {"driver": self._driver(), "firmware": firmware.get(one.chip.phy, "not known")}
                findings.append(ChipFinding(one.chip.phy, MISFIT, not fit, {} if fit else evidence))
        usual = Counter(firmware.values()).most_common(1)
        others = {f"chip {phy}": found for phy, found in sorted(firmware.items()) if found != usual[0][0]}
        evidence = {"usual": usual[0][0], **others} if others else {}
        mixed = (NodeFinding(MIXED, bool(others), evidence=evidence),) if firmware else ()
        unasked = [f"chip {one.chip.phy}: {one.why}" for one in chips if one.why]
        if not unasked:
            self._asked, self._again_at = enumeration, mono + ASK_AGAIN_S
        return Observation(
            chips=tuple(findings),
            node=mixed,
            firmware=usual[0][0] if usual else None,
            partly="; ".join(unasked) or None,
        )

    def _driver(self) -> str:
        return self._sensors.chips.enumeration.driver or "not known"


def firmware_of(one: Measured) -> str | None:
    """Of the components that are asked only one has a version on each generation."""
    found = (version(one.words(index)) for index in range(FIRST_VERSION, len(one.gauges)))
    return next((text for text in found if text is not None), None)


def make(config: AgentConfig, sensors: Sensors) -> Versions | None:
    return None if sensors.gauges is None else Versions(sensors.gauges, sensors)
