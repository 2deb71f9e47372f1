"""Optical module of every port: there, power within the module's own limits, signal and lock (hccn_tool -optical).

The loss flags are latched and cleared by reading: nobody else may read them, one look with a flag is an edge and no
state. Both dies of an A3 show the same module: whichever asks first takes the flags, so they count for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agent.config import AgentConfig
from agent.decode.hccn_optical import Limits
from agent.decode.hccn_optical import Optical as Module
from agent.detect.readings import ChipFinding
from agent.ports import OTHER_DIALECT, PortStreaks, chips_with_ports, reasons
from agent.probe import CannotLook, Observation, Sensors, partly
from agent.sensors.hccn import Hccn
from agent.sensors.sole_reader import SoleReader

ABSENT, POWER, SIGNAL = "NW-OPTICAL-ABSENT", "NW-OPTICAL-POWER", "NW-OPTICAL-SIGNAL"


class Optical(PortStreaks):
    name = "optical"

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, sole: SoleReader, *, looks: int) -> None:
        super().__init__(period_s, sensors, hccn, looks=looks)
        self._sole = sole

    async def look(self) -> Observation:
        try:
            mine = self._sole.claims()
        except OSError as exc:
            raise CannotLook(f"{exc.filename}: {exc.strerror}") from exc
        if not mine:
            raise CannotLook("another agent or scan reads the optical modules: their flags are for one reader alone")
        modules, failed = await self._rounds.ask(chips_with_ports(self._sensors), self._hccn.optical)
        return Observation(chips=tuple(self._judge(modules)), partly=partly(reasons(failed)))

    def _judge(self, modules: dict[int, Module]) -> Iterator[ChipFinding]:
        """An absent module is no more than absent, whatever the tool prints beside it."""
        plugged = {phy: module for phy, module in modules.items() if module.present}
        for phy, module in modules.items():
            yield ChipFinding(phy, ABSENT, phy not in plugged)
            power = out_of_limits(module) if phy in plugged else {}
            signal = flags_of(phy, plugged) if phy in plugged else {}
            for code, evidence in ((POWER, power), (SIGNAL, signal)):
                if evidence is not None:
                    yield from self._findings(phy, code, evidence)


def out_of_limits(module: Module) -> dict[str, str] | None:
    """Lanes whose power is outside what the module itself states; None where no lane can be held against limits."""
    powers = {f"tx{lane.lane}": (lane.tx_power_mw, module.tx_power_mw_limits) for lane in module.lanes}
    powers |= {f"rx{lane.lane}": (lane.rx_power_mw, module.rx_power_mw_limits) for lane in module.lanes}
    judged = {what: text for what, (mw, limits) in powers.items() if (text := _outside(mw, limits)) is not None}
    return {what: text for what, text in judged.items() if text} if judged else None


def _outside(mw: float | None, limits: Limits) -> str | None:
    """Empty when it is inside, None when that cannot be told."""
    low, high = limits.low, limits.high
    if mw is None or low is None or high is None or low >= high:
        return None
    return "" if low <= mw <= high else f"{mw:g} mW, limits {low:g} to {high:g}"


def flags_of(phy: int, plugged: dict[int, Module]) -> dict[str, str] | None:
    """Flags that this look found on the module of the chip, through whichever chip it was read. None: the tool could
    read none of its registers."""
    mine = plugged[phy]
    same = [one for one in plugged.values() if one is mine or (mine.serial and one.serial == mine.serial)]
    read = {(name, lanes) for one in same for name, lanes in _registers(one).items() if lanes is not None}
    flags = sorted(f"{name} {lanes:#x}" for name, lanes in read if lanes)
    if flags:
        return {"flags": ", ".join(flags)}
    return {} if read else None


def _registers(module: Module) -> dict[str, int | None]:
    """Loss of signal and loss of lock, by the tool's names."""
    return {
        "Tx Los Flag": module.tx_los,
        "Rx Los Flag": module.rx_los,
        "Tx LoL Flag": module.tx_lol,
        "Rx LoL Flag": module.rx_lol,
    }


def make(config: AgentConfig, sensors: Sensors) -> Optical | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    state_dir = Path(config.paths.state_dir)
    sole = SoleReader(state_dir / "optical.lock" if os.access(state_dir, os.W_OK) else None)
    return Optical(config.poll.optics_s, sensors, sensors.hccn, sole, looks=config.probes.optical.looks)
