"""Processes that hold a chip although their pod is gone: whoever gets the chip next fails for want of memory.

Source: open `/dev/davinci<physical id>` in /proc, the pod's UID in the process's cgroup, and the kubelet's directory of
that pod, which goes when the pod does. Processes of the host itself are nobody's leftovers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.holders import Holder, NotTheHost, read_holders
from agent.sensors.reach import may_be_directory, why_not

CODE = "NW-STALE-PROCESS"
PERIOD_S = 60.0
"""All processes of the host are gone through, which is not free; a pod that ends needs some seconds anyway."""


class StaleProcess:
    """`read` may raise NotTheHost or OSError."""

    name = "stale_process"
    timeout_s = 20.0

    def __init__(self, sensors: Sensors, read: Callable[[], list[Holder]], pods: Path, *, looks: int) -> None:
        self.period_s = PERIOD_S
        self._sensors, self._read, self._pods = sensors, read, pods
        self._stale = Streak(looks)
        self._thread = OwnThread("/proc and the kubelet's directory")

    async def look(self) -> Observation:
        try:
            stale = await self._thread.run(self._left_over)
        except NotTheHost as exc:
            raise CannotLook(str(exc)) from exc
        except OSError as exc:
            raise CannotLook(why_not(exc)) from exc
        return Observation(chips=tuple(self._findings(stale)))

    def _left_over(self) -> list[Holder]:
        """The processes first: a pod that starts meanwhile has its directory before them."""
        holders = self._read()
        alive = {entry.name for entry in self._pods.iterdir()}
        return [holder for holder in holders if holder.pod not in alive]

    def _findings(self, stale: list[Holder]) -> Iterable[ChipFinding]:
        for phy in sorted(self._sensors.chips.enumeration.chips):
            here = [holder for holder in stale if phy in holder.chips]
            active = self._stale.judge(phy, bool(here))
            if active is not None:
                evidence = {f"pid {holder.pid}": f"{holder.name} of pod {holder.pod}" for holder in here}
                yield ChipFinding(phy, CODE, active, evidence)


def make(config: AgentConfig, sensors: Sensors) -> StaleProcess | None:
    pods = Path(config.paths.kubelet_dir) / "pods"
    if not may_be_directory(pods):
        return None
    procfs = Path(config.paths.procfs)
    return StaleProcess(sensors, lambda: read_holders(procfs), pods, looks=config.probes.stale_process.looks)
