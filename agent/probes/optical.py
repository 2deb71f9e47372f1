"""Optical module of every port: there, power within the module's own limits, signal and lock (hccn_tool -optical).

The loss flags are latched and cleared by reading: nobody else may read them, one look with a flag is an edge and no
state. Both dies of an A3 show the same module: whichever asks first takes the flags, so they count for both.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.ports import ROUND_TIMEOUT_S, ask_ports
from agent.probe import Observation, Sensors, partly
from agent.sensors.hccn import Hccn
from agent.sensors.hccn_parse import Module

ABSENT, POWER, SIGNAL = "NW-OPTICAL-ABSENT", "NW-OPTICAL-POWER", "NW-OPTICAL-SIGNAL"


class Optical:
    name = "optical"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, *, looks: int) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn
        self._bad = Streak(looks)

    async def look(self) -> Observation:
        modules, failed = await ask_ports(self._sensors, self._hccn.optical)
        return Observation(chips=tuple(self._judge(modules)), partly=partly(failed))

    def _judge(self, modules: dict[int, Module]) -> Iterable[ChipFinding]:
        for phy, module in modules.items():
            yield ChipFinding(phy, ABSENT, not module.present)
            for code, evidence in ((POWER, out_of_limits(module)), (SIGNAL, flags_of(phy, modules))):
                bad = self._bad.judge((phy, code), bool(evidence))
                if bad is not None:
                    yield ChipFinding(phy, code, bad, evidence if bad else {})


def out_of_limits(module: Module) -> dict[str, str]:
    """Lanes whose power is outside what the module itself states; without such limits nothing can be said."""
    found: dict[str, str] = {}
    for side, powers, limits in (("tx", module.tx_mw, module.tx_limits_mw), ("rx", module.rx_mw, module.rx_limits_mw)):
        low, high = limits or (float("-inf"), float("inf"))
        for lane, mw in enumerate(powers):
            if not low <= mw <= high:
                found[f"{side}{lane}"] = f"{mw:g} mW, limits {low:g} to {high:g}"
    return found


def flags_of(phy: int, modules: dict[int, Module]) -> dict[str, str]:
    """Flags that this look found on the module of the chip, through whichever chip it was read."""
    mine = modules[phy]
    same = [one for one in modules.values() if one is mine or (mine.serial and one.serial == mine.serial)]
    flags = sorted({flag for one in same for flag in one.flags})
    return {"flags": ", ".join(flags)} if flags else {}


def make(config: AgentConfig, sensors: Sensors) -> Optical | None:
    if sensors.hccn is None:
        return None
    return Optical(config.poll.optics_s, sensors, sensors.hccn, looks=config.probes.optical.looks)
