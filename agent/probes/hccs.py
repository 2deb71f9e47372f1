"""HCCS, the links between the chips of a host: status as npu-smi judges it (DCMI, HCCS status: pcs 0 and hdlc 3), and
transmission errors by what is new (HCCS statistics). Without the library npu-smi is asked (-t hccs).

Generations without these links answer "not supported", and then nothing is said.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent.config import AgentConfig
from agent.counting import Rising
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.limits import Hccs as HccsLimits
from agent.measuring import PERIOD_S, TIMEOUT_S, measured
from agent.probe import Observation, Sensors
from agent.remembering import RemembersCounters
from agent.sensors.gauges import Gauges, Measured, hccs_crc_errors, hccs_up

CODE, ERRORS = "NW-HCCS", "NW-HCCS-ERRORS"
STATUS, STATISTICS = 0, 1


class Hccs(RemembersCounters):
    name = "hccs"
    period_s = PERIOD_S
    timeout_s = TIMEOUT_S

    def __init__(self, gauges: Gauges, limits: HccsLimits) -> None:
        self._gauges = gauges
        self._down = Streak(limits.looks)
        self._rising = Rising(window_s=limits.window_s, limit=limits.crc_errors, began=time.monotonic())

    async def look(self) -> Observation:
        chips, unknown = await measured(self._gauges, "hccs")
        findings: list[ChipFinding] = []
        mono = time.monotonic()
        for one in chips:
            findings += self._errors(one, mono)
            words = one.words(STATUS)
            up = hccs_up(words)
            down = None if up is None else self._down.judge(one.chip.phy, not up)
            if down is not None and words is not None:
                names = ("pcs_status", "hdlc_status") if len(words) > 1 else ("ok",)
                evidence = {name: f"0x{word:X}" for name, word in zip(names, words, strict=True)} if down else {}
                findings.append(ChipFinding(one.chip.phy, CODE, down, evidence))
        return Observation(chips=tuple(findings), partly=unknown)

    def _errors(self, one: Measured, mono: float) -> Iterable[ChipFinding]:
        total, chip = hccs_crc_errors(one.words(STATISTICS)), str(one.chip.phy)
        if total is None:
            return
        self._rising.see(chip, total, mono)
        many = self._rising.judge(chip, mono)
        if many is not None:
            evidence = {"crc errors": f"{self._rising.within_window(chip, mono)} new"} if many else {}
            yield ChipFinding(one.chip.phy, ERRORS, many, evidence)


def make(config: AgentConfig, sensors: Sensors) -> Hccs | None:
    return None if sensors.gauges is None else Hccs(sensors.gauges, config.probes.hccs)
