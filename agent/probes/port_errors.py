"""Bad packets of every RoCE port: counters of the chip's own network card, by what is new (hccn_tool -stat).

Only counters of errors: frames with a bad checksum, packets that were damaged, refused or sent again. Pause frames and
congestion marks belong to a busy network and are none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent.config import AgentConfig
from agent.counting import Rising
from agent.detect.readings import ChipFinding
from agent.limits import PortErrors as PortErrorsLimits
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, Rounds, chips_with_ports, reasons
from agent.probe import Observation, Sensors, partly
from agent.remembering import RemembersCounters
from agent.sensors.hccn import Hccn

CODE = "NW-PORT-ERRORS"
PERIOD_S = 120.0
COUNTERS = (
    "mac_rx_bad_pkt_num",
    "mac_tx_bad_pkt_num",
    "mac_rx_fcs_err_pkt_num",
    "roce_rx_err_pkt_num",
    "roce_tx_err_pkt_num",
    "roce_verification_err_num",
    "roce_qp_status_err_num",
    "roce_new_pkt_rty_num",
)
"""By the tool's names; a build that does not print one of them has nothing to say about it."""


class PortErrors(RemembersCounters):
    name = "port_errors"
    period_s = PERIOD_S
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, sensors: Sensors, hccn: Hccn, limits: PortErrorsLimits) -> None:
        self._sensors, self._hccn = sensors, hccn
        self._rounds = Rounds()
        self._rising = Rising(window_s=limits.window_s, limit=limits.errors, began=time.monotonic())

    async def look(self) -> Observation:
        stats, failed = await self._rounds.ask(chips_with_ports(self._sensors), self._hccn.stat)
        mono = time.monotonic()
        findings = [found for phy, counters in stats.items() for found in self._judge(phy, counters, mono)]
        return Observation(chips=tuple(findings), partly=partly(reasons(failed)))

    def _judge(self, phy: int, counters: dict[str, int], mono: float) -> Iterable[ChipFinding]:
        verdicts: dict[str, bool | None] = {}
        for name in COUNTERS:
            if name in counters:
                self._rising.see(f"{name}@{phy}", counters[name], mono)
                verdicts[name] = self._rising.judge(f"{name}@{phy}", mono)
        bad = [name for name, verdict in verdicts.items() if verdict]
        if bad:
            evidence = {name: f"{self._rising.within_window(f'{name}@{phy}', mono)} new" for name in bad}
            yield ChipFinding(phy, CODE, True, evidence)
        elif None not in verdicts.values():
            yield ChipFinding(phy, CODE, False)


def make(config: AgentConfig, sensors: Sensors) -> PortErrors | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    return PortErrors(sensors, sensors.hccn, config.probes.port_errors)
