"""HCCS, the links between the chips of a host: status as npu-smi judges it (DCMI, HCCS status: pcs 0 and hdlc 3).

Generations without these links answer "not supported", and then nothing is said.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.measuring import PERIOD_S, TIMEOUT_S, measured
from agent.probe import Observation, Sensors
from agent.sensors.gauges import Gauges, hccs_up

CODE = "NW-HCCS"


class Hccs:
    name = "hccs"
    period_s = PERIOD_S
    timeout_s = TIMEOUT_S

    def __init__(self, gauges: Gauges, *, looks: int) -> None:
        self._gauges = gauges
        self._down = Streak(looks)

    async def look(self) -> Observation:
        chips, unknown = await measured(self._gauges, "hccs")
        findings: list[ChipFinding] = []
        for one in chips:
            words = one.words(0)
            up = hccs_up(words)
            down = None if up is None else self._down.judge(one.chip.phy, not up)
            if down is not None and words is not None:
                evidence = {"pcs_status": f"0x{words[0]:X}", "hdlc_status": f"0x{words[1]:X}"} if down else {}
                findings.append(ChipFinding(one.chip.phy, CODE, down, evidence))
        return Observation(chips=tuple(findings), partly=unknown)


def make(config: AgentConfig, sensors: Sensors) -> Hccs | None:
    return None if sensors.gauges is None else Hccs(sensors.gauges, looks=config.probes.hccs.looks)
