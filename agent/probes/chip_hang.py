"""Chips that hang: processes hold them, and neither AICore, HBM, ports nor the processes' CPU time move on.

Source: DCMI (utilisation, resource_info), hccn_tool -stat, /proc/PID/stat. The rule and its limits are the vendor's
(detect/hang.py). Ports are asked only of chips that are held and whose AICore rests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from agent.config import AgentConfig
from agent.detect.hang import HangWatch, IdleBelow, Watched, Work
from agent.detect.readings import ChipFinding
from agent.limits import ChipHang as Limits
from agent.measuring import measured
from agent.own_thread import OwnThread
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, Rounds, logic_id, reasons
from agent.probe import CannotLook, Observation, Sensors, partly
from agent.sensors.cpu_time import CpuTime, read_cpu_times
from agent.sensors.gauges import Gauges, Measured, percent
from agent.sensors.hccn import Hccn
from agent.sensors.hccn_950 import Hccn950
from agent.sensors.holders import NotTheHost
from agent.sensors.npu_smi import NpuSmi
from shared.model import Instant

CODE = "200001002"
PERIOD_S = 60.0
AICORE, HBM, PROCESSES = 0, 1, 2
PACKETS = ("roce_tx_all_pkt_num", "roce_rx_all_pkt_num")


class ChipHang:
    """`read` gives the CPU time of processes that are there; it may raise NotTheHost, OSError or ValueError."""

    name = "chip_hang"
    period_s = PERIOD_S
    timeout_s = ROUND_TIMEOUT_S

    def __init__(
        self,
        sensors: Sensors,
        gauges: Gauges,
        hccn: Hccn,
        read: Callable[[frozenset[int]], dict[int, CpuTime]],
        limits: Limits,
    ) -> None:
        self._sensors, self._gauges, self._hccn, self._read, self._limits = sensors, gauges, hccn, read, limits
        self._watch = watch(limits)
        self._rounds = Rounds()
        self._thread = OwnThread("/proc")
        self._unseen: frozenset[int] = frozenset()

    async def look(self) -> Observation:
        chips, unknown = await measured(self._gauges, "work")
        pids = {one.chip.phy: pids for one in chips if (pids := one.words(PROCESSES)) is not None}
        times = await self._cpu_times(frozenset(pid for held in pids.values() for pid in held))
        resting = [one.chip.phy for one in chips if pids.get(one.chip.phy) and self._rests(one)]
        packets, failed = await self._rounds.ask(resting, self._packets)
        mono = time.monotonic()
        findings: list[ChipFinding] = []
        for one in chips:
            phy = one.chip.phy
            work = work_of(one, pids.get(phy), times, packets.get(phy), mono)
            hangs = self._watch.see(phy, work)
            if hangs is not None:
                findings.append(ChipFinding(phy, CODE, hangs, self._evidence(phy, work) if hangs else {}))
        self._watch.keep({one.chip.phy for one in chips})
        strangers = self._strangers_again({pid: phy for phy, held in pids.items() for pid in held if pid not in times})
        troubles = [*([unknown] if unknown else []), *strangers, *reasons(failed)]
        return Observation(chips=tuple(findings), partly=partly(troubles))

    def memory(self) -> dict[int, Watched]:
        return self._watch.memory()

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        """No process outlives a boot, so there is no idle one to go on with."""
        if same_boot:
            self._watch.recall(msgspec.json.decode(kept, type=dict[int, Watched]))

    def _strangers_again(self, unseen: Mapping[int, int]) -> list[str]:
        """Processes that were not there in the look before either, and so have not just ended: the driver's numbers
        are not the host's, and a hang of their chips would never be seen."""
        again = [(pid, phy) for pid, phy in unseen.items() if pid in self._unseen]
        self._unseen = frozenset(unseen)
        return [f"chip {phy}: process {pid}, which holds it, is not in the host's /proc" for pid, phy in again]

    def _rests(self, one: Measured) -> bool:
        aicore = percent(one.words(AICORE))
        return aicore is not None and aicore < self._limits.aicore_pct

    async def _cpu_times(self, pids: frozenset[int]) -> dict[int, CpuTime]:
        """Nothing is read while nobody holds a chip."""
        if not pids:
            return {}
        try:
            return await self._thread.run(lambda: self._read(pids))
        except (NotTheHost, OSError, ValueError) as exc:
            raise CannotLook(str(exc)) from exc

    async def _packets(self, phy: int) -> int | None:
        """Sent and received; None where the tool's build counts neither."""
        if self._sensors.bus.generation == OTHER_DIALECT:
            return await Hccn950(self._hccn).flits(logic_id(self._sensors, phy))
        counters = await self._hccn.stat(phy)
        return sum(counters[name] for name in PACKETS) if counters.keys() >= set(PACKETS) else None

    def _evidence(self, phy: int, work: Work) -> dict[str, str]:
        return {
            "processes": ", ".join(str(pid) for pid, _ in work.processes or ()),
            "idle": f"{self._watch.idle_looks(phy)} looks in a row, {PERIOD_S:g} s apart",
            "aicore": f"{work.aicore_pct:g} %",
        }


def watch(limits: Limits) -> HangWatch:
    below = IdleBelow(limits.aicore_pct, limits.hbm_pct, limits.packets_per_min, limits.cpu_s_per_min)
    return HangWatch(below, limits.looks)


def work_of(
    one: Measured, pids: tuple[int, ...] | None, times: Mapping[int, CpuTime], packets: int | None, mono: float
) -> Work:
    """A process that the driver names and that is not there has ended meanwhile, or is none of this host's: then
    nothing can be said of the processes."""
    there = None if pids is None or any(pid not in times for pid in pids) else sorted(set(pids))
    return Work(
        at=mono,
        processes=None if there is None else tuple((pid, times[pid].start) for pid in there),
        aicore_pct=percent(one.words(AICORE)),
        hbm_pct=percent(one.words(HBM)),
        packets=packets,
        cpu_s=None if there is None else sum(times[pid].used_s for pid in there),
    )


def make(config: AgentConfig, sensors: Sensors) -> ChipHang | None:
    """Without hccn_tool nobody can tell whether the chip talks to others, and npu-smi cannot tell an AICore that rests
    from one that it could not read."""
    if sensors.gauges is None or sensors.hccn is None or sensors.chips.name == NpuSmi.name:
        return None
    procfs = Path(config.paths.procfs)
    limits = config.probes.chip_hang
    return ChipHang(sensors, sensors.gauges, sensors.hccn, lambda pids: read_cpu_times(procfs, pids), limits)
