"""What each chip's own detection says of its network: can it reach its detection address? (hccn_tool -net_health)

Without a detection address it says Init, and that is healthy. Thread error, Detect ip set and Unknown are no answers
about the network.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.ports import ROUND_TIMEOUT_S, ask_ports
from agent.probe import Observation, Sensors, partly
from agent.sensors.hccn import Hccn

CODE = "NW-NET-HEALTH"
HEALTHY = frozenset({"Success", "Init"})
BAD = frozenset({"Socket fail", "Socket failed", "Receive timeout", "Unreachable", "Time exceeded", "Fault"})
"""`Socket failed`: older builds."""


class NetHealth:
    name = "net_health"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, *, looks: int) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn
        self._bad = Streak(looks)

    async def look(self) -> Observation:
        words, failed = await ask_ports(self._sensors, self._hccn.net_health)
        chips: list[ChipFinding] = []
        for phy, word in words.items():
            if word not in HEALTHY | BAD:
                failed.append(f"chip {phy}: net health status {word}")
                continue
            bad = self._bad.judge(phy, word in BAD)
            if bad is not None:
                chips.append(ChipFinding(phy, CODE, bad, {"status": word} if bad else {}))
        return Observation(chips=tuple(chips), partly=partly(failed))


def make(config: AgentConfig, sensors: Sensors) -> NetHealth | None:
    if sensors.hccn is None:
        return None
    return NetHealth(config.poll.links_s, sensors, sensors.hccn, looks=config.probes.net_health.looks)
