"""RoCE ports of the 950: a chip has several, asked by die and port (hccn_tool -dev_info, -port_info).

A chip without any link left is down by the vendor's code for that, as on the other generations; one that has lost some
of its links is slow and is told. Ports that are switched off have no cable. Chips whose ports are all UB have none.
"""

from __future__ import annotations

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding, LinkReading
from agent.evidence import Streak
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, Rounds, logic_id, reasons
from agent.probe import Observation, Sensors, partly
from agent.probes.link_state import ROUND_SHARE
from agent.sensors.hccn import Hccn
from agent.sensors.hccn_950 import Hccn950, RocePorts

CODE = "NW-ROCE-PORT"


class RoceLinks:
    name = "roce_ports"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, links_s: float, sensors: Sensors, hccn: Hccn, *, looks: int) -> None:
        self.period_s = ROUND_SHARE * links_s
        self._sensors, self._ports = sensors, Hccn950(hccn)
        self._rounds = Rounds()
        self._partial = Streak(looks)
        self._with_roce: set[int] = set()

    async def look(self) -> Observation:
        chips = sorted(self._sensors.chips.enumeration.chips)
        seen, failed = await self._rounds.ask(chips, self._ask)
        self._with_roce |= {phy for phy, ports in seen.items() if ports.up or ports.down}
        # whose last cable was taken out by switching its ports off is not down any more, and somebody must say so
        links = [LinkReading(phy, bool(p.up) or not p.down) for phy, p in seen.items() if p != RocePorts()]
        links += [LinkReading(phy, None, why) for phy, why in failed.items() if phy in self._with_roce]
        findings: list[ChipFinding] = []
        for phy, ports in seen.items():
            partial = self._partial.judge(phy, bool(ports.up and ports.down))
            if partial is not None:
                evidence = {"without a link": ", ".join(ports.down), "with": ", ".join(ports.up)} if partial else {}
                findings.append(ChipFinding(phy, CODE, partial, evidence))
        return Observation(links=tuple(links), chips=tuple(findings), partly=partly(reasons(failed)))

    async def _ask(self, phy: int) -> RocePorts:
        return await self._ports.roce_ports(logic_id(self._sensors, phy))


def make(config: AgentConfig, sensors: Sensors) -> RoceLinks | None:
    if sensors.hccn is None or sensors.bus.generation != OTHER_DIALECT:
        return None
    return RoceLinks(config.poll.links_s, sensors, sensors.hccn, looks=config.probes.roce_ports.looks)
