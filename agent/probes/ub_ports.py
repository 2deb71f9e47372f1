"""UB ports of the 950: those without a link, and those that run at a part of their width (DCMI ub_port_link_status).

Boards whose driver has no such call are asked by `hccn_tool -ub_connect`. A chip with no link at all is cut off from
the others and gets no new work; when every chip of the host is so, it is cables or switch, and a warning is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.measuring import PERIOD_S, measured
from agent.ports import ROUND_TIMEOUT_S
from agent.probe import Observation, Sensors, partly
from agent.sensors.gauges import Gauges, UbPorts, ub_ports
from agent.sensors.hccn import Hccn
from agent.sensors.process import ToolError

DEGRADED, CUT_OFF = "NW-UB-PORT", "NW-UB-CUT-OFF"
GENERATION = "950"


class UbPort:
    name = "ub_ports"
    period_s = PERIOD_S
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, gauges: Gauges | None, hccn: Hccn | None, sensors: Sensors, *, looks: int) -> None:
        self._gauges, self._hccn, self._sensors = gauges, hccn, sensors
        self._bad = Streak(looks)

    async def look(self) -> Observation:
        ports, unknown = await self._by_driver()
        if self._hccn is not None:
            for phy, chip in self._sensors.chips.enumeration.chips.items():
                if phy in ports or phy in unknown:
                    continue
                try:
                    ports[phy] = await self._hccn.ub_ports(phy if chip.identity.logic is None else chip.identity.logic)
                except ToolError as exc:
                    unknown[phy] = str(exc)
        findings = [finding for phy, found in ports.items() for finding in self._judge(phy, found, ports)]
        return Observation(
            chips=tuple(findings), partly=partly([f"chip {phy}: {why}" for phy, why in sorted(unknown.items())])
        )

    async def _by_driver(self) -> tuple[dict[int, UbPorts], dict[int, str]]:
        """What the driver says by physical id, and where it failed; a chip that is in neither it cannot tell of."""
        if self._gauges is None:
            return {}, {}
        chips, _ = await measured(self._gauges, "ub")
        said = {one.chip.phy: ub_ports(one.words(0)) for one in chips}
        failed = {one.chip.phy: one.unknown for one in chips if one.unknown}
        return {phy: found for phy, found in said.items() if found is not None}, failed

    def _judge(self, phy: int, found: UbPorts, all_chips: Mapping[int, UbPorts]) -> list[ChipFinding]:
        everywhere = all(one.alone for one in all_chips.values()) and len(all_chips) > 1
        evidence = {
            what: ", ".join(map(str, ports))
            for what, ports in (("down", found.down), ("narrow", found.narrow))
            if ports
        }
        if found.alone and everywhere:
            evidence["without a link"] = "every chip of this host"
        cut_off = found.alone and not everywhere
        findings = []
        for code, bad in ((CUT_OFF, cut_off), (DEGRADED, bool(evidence) and not cut_off)):
            active = self._bad.judge((phy, code), bad)
            if active is not None:
                findings.append(ChipFinding(phy, code, active, (evidence or {"ports": "no link"}) if active else {}))
        return findings


def make(config: AgentConfig, sensors: Sensors) -> UbPort | None:
    if sensors.bus.generation != GENERATION or (sensors.gauges is None and sensors.hccn is None):
        return None
    return UbPort(sensors.gauges, sensors.hccn, sensors, looks=config.probes.ub_ports.looks)
