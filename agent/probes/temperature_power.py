"""Temperature of chip and HBM in degrees Celsius and power in watts, against limits (DCMI).

A sensor that answers nothing, or the driver's numbers for "absent", is no temperature.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.limits import TemperaturePower as Limits
from agent.measuring import PERIOD_S, TIMEOUT_S, measured
from agent.probe import Observation, Sensors
from agent.sensors.gauges import Gauges, Measured, celsius, hbm_celsius, power_w

HOT, POWER = "NW-TEMPERATURE", "NW-POWER"


class TemperaturePower:
    name = "temperature_power"
    period_s = PERIOD_S
    timeout_s = TIMEOUT_S

    def __init__(self, gauges: Gauges, limits: Limits) -> None:
        self._gauges, self._limits = gauges, limits
        self._above = Streak(limits.looks)

    async def look(self) -> Observation:
        chips, unknown = await measured(self._gauges, "heat")
        findings: list[ChipFinding] = []
        for one in chips:
            for code, evidence in judge(one, self._limits).items():
                above = self._above.judge((one.chip.phy, code), bool(evidence))
                if above is not None:
                    findings.append(ChipFinding(one.chip.phy, code, above, evidence if above else {}))
        return Observation(chips=tuple(findings), partly=unknown)


def judge(one: Measured, limits: Limits) -> dict[str, dict[str, str]]:
    """What is above its limit, by code; a code of which nothing could be measured is missing."""
    heat = {
        "chip": (celsius(one.words(0)), limits.chip_celsius),
        "hbm": (hbm_celsius(one.words(2)), limits.hbm_celsius),
    }
    found: dict[str, dict[str, str]] = {}
    if any(value is not None for value, _ in heat.values()):
        found[HOT] = {
            part: f"{value} C, limit {limit}"
            for part, (value, limit) in heat.items()
            if value is not None and value >= limit
        }
    watts = power_w(one.words(1))
    if watts is not None:
        found[POWER] = {"power": f"{watts:g} W, limit {limits.power_w:g}"} if watts >= limits.power_w else {}
    return found


def make(config: AgentConfig, sensors: Sensors) -> TemperaturePower | None:
    return None if sensors.gauges is None else TemperaturePower(sensors.gauges, config.probes.temperature_power)
