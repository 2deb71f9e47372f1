"""What each chip's own detection says of its network: can it reach its detection address? (hccn_tool -net_health)

Without a detection address it says Init, and that is healthy. Thread error, Detect ip set and Unknown are no answers
about the network.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.ports import OTHER_DIALECT, PortStreaks, ask_ports
from agent.probe import Observation, Sensors, partly

CODE = "NW-NET-HEALTH"
BAD = frozenset({"Socket fail", "Socket failed", "Receive timeout", "Unreachable", "Time exceeded", "Fault"})
"""The words against the network; the decoder calls unhealthy whatever is not Success or Init. `Socket failed`: older
builds."""


class NetHealth(PortStreaks):
    name = "net_health"

    async def look(self) -> Observation:
        answers, failed = await ask_ports(self._sensors, self._hccn.net_health)
        chips: list[ChipFinding] = []
        for phy, answer in answers.items():
            word = str(answer.status)
            if answer.healthy or word in BAD:
                chips += self._findings(phy, CODE, {} if answer.healthy else {"status": word})
            else:
                failed.append(f"chip {phy}: net health status {word}")
        return Observation(chips=tuple(chips), partly=partly(failed))


def make(config: AgentConfig, sensors: Sensors) -> NetHealth | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    return NetHealth(config.poll.links_s, sensors, sensors.hccn, looks=config.probes.net_health.looks)
