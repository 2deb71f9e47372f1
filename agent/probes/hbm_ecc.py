"""HBM of every chip: uncorrectable errors that are new, and pages isolated for them (DCMI, struct dcmi_ecc_info).

The driver has codes of its own for HBM faults, and they decide about pods; this sees what raises no event. The counter
is since ever, so only what is new counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent.config import AgentConfig
from agent.counting import Rising
from agent.detect.readings import ChipFinding
from agent.limits import HbmEcc as HbmEccLimits
from agent.measuring import PERIOD_S, TIMEOUT_S, measured
from agent.probe import Observation, Sensors
from agent.remembering import RemembersCounters
from agent.sensors.gauges import Ecc, Gauges, ecc

UNCORRECTABLE, ISOLATED = "NW-HBM-UNCORRECTABLE", "NW-HBM-ISOLATED"


class HbmEcc(RemembersCounters):
    name = "hbm_ecc"
    period_s = PERIOD_S
    timeout_s = TIMEOUT_S

    def __init__(self, gauges: Gauges, limits: HbmEccLimits) -> None:
        self._gauges, self._limits = gauges, limits
        self._rising = Rising(window_s=limits.window_s, limit=1, began=time.monotonic(), lasting=True)

    async def look(self) -> Observation:
        chips, unknown = await measured(self._gauges, "ecc")
        counts = {one.chip.phy: ecc(one.words(0)) for one in chips}
        mono = time.monotonic()
        findings = [f for phy, seen in counts.items() if seen is not None for f in self._judge(phy, seen, mono)]
        return Observation(chips=tuple(findings), partly=unknown)

    def _judge(self, phy: int, seen: Ecc, mono: float) -> Iterable[ChipFinding]:
        self._rising.see(str(phy), seen.uncorrectable, mono)
        rising = self._rising.judge(str(phy), mono)
        if rising is not None:
            yield ChipFinding(phy, UNCORRECTABLE, rising, {"total": str(seen.uncorrectable)} if rising else {})
        many = seen.isolated_pages >= self._limits.isolated_pages
        yield ChipFinding(phy, ISOLATED, many, {"pages": str(seen.isolated_pages)} if many else {})


def make(config: AgentConfig, sensors: Sensors) -> HbmEcc | None:
    return None if sensors.gauges is None else HbmEcc(sensors.gauges, config.probes.hbm_ecc)
