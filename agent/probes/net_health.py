"""What each chip's own detection says of its network: can it reach its detection address? (hccn_tool -net_health)

Without a detection address it says Init, and that is healthy. Thread error, Detect ip set and Unknown are no answers
about the network. The tool of the 950 has no such command: there it is DCMI that is asked (dcmi_rdfx_detect_result).
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.measuring import TIMEOUT_S, measured
from agent.ports import OTHER_DIALECT, PortStreaks, chips_with_ports, reasons
from agent.probe import Observation, Sensors, partly
from agent.sensors.gauges import Gauges

CODE = "NW-NET-HEALTH"
BAD = frozenset({"Socket fail", "Socket failed", "Receive timeout", "Unreachable", "Time exceeded", "Fault"})
"""The words against the network; the decoder calls unhealthy whatever is not Success or Init. `Socket failed`: older
builds."""


WELL = frozenset({"Success", "Init"})
DETECT_RESULTS = dict(
    enumerate(
        (
            *("Success", "Socket fail", "Receive timeout", "Unreachable", "Time exceeded", "Fault", "Init"),
            *("Thread error", "Detect ip set"),
        )
    )
)
"""enum dcmi_rdfx_detect_result in the tool's words."""


class NetHealth(PortStreaks):
    name = "net_health"

    async def look(self) -> Observation:
        answers, failed = await self._rounds.ask(chips_with_ports(self._sensors), self._hccn.net_health)
        chips: list[ChipFinding] = []
        for phy, answer in answers.items():
            word = str(answer.status)
            if answer.healthy or word in BAD:
                chips += self._findings(phy, CODE, {} if answer.healthy else {"status": word})
            else:
                failed[phy] = f"net health status {word}"
        return Observation(chips=tuple(chips), partly=partly(reasons(failed)))


class NetHealth950:
    name = "net_health"
    timeout_s = TIMEOUT_S

    def __init__(self, period_s: float, gauges: Gauges, *, looks: int) -> None:
        self.period_s = period_s
        self._gauges = gauges
        self._bad = Streak(looks)

    async def look(self) -> Observation:
        """Cards whose driver cannot tell say nothing."""
        chips, unknown = await measured(self._gauges, "net")
        failed = [unknown] if unknown else []
        findings: list[ChipFinding] = []
        for one in chips:
            words = one.words(0)
            if not words:
                continue
            word = DETECT_RESULTS.get(words[0], f"{words[0]}")
            if word not in BAD and word not in WELL:
                failed.append(f"chip {one.chip.phy}: net health status {word}")
                continue
            bad = self._bad.judge(one.chip.phy, word in BAD)
            if bad is not None:
                findings.append(ChipFinding(one.chip.phy, CODE, bad, {"status": word} if bad else {}))
        return Observation(chips=tuple(findings), partly=partly(failed))


def make(config: AgentConfig, sensors: Sensors) -> NetHealth | NetHealth950 | None:
    if sensors.bus.generation == OTHER_DIALECT:
        if sensors.gauges is None:
            return None
        return NetHealth950(config.poll.links_s, sensors.gauges, looks=config.probes.net_health.looks)
    if sensors.hccn is None:
        return None
    return NetHealth(config.poll.links_s, sensors, sensors.hccn, looks=config.probes.net_health.looks)
