"""Memory of the host: what can still be had without swapping, in percent (psutil, MemAvailable)."""

from __future__ import annotations

from collections.abc import Callable

from agent.config import AgentConfig
from agent.detect.readings import NodeFinding
from agent.probe import CannotLook, Observation, Sensors

MB = 1 << 20


class HostMemory:
    """`read` gives (total, available) in bytes and may raise OSError."""

    name = "host_memory"
    timeout_s = 5.0

    def __init__(self, period_s: float, read: Callable[[], tuple[int, int]], *, available_pct: float) -> None:
        self.period_s = period_s
        self._read, self._available_pct = read, available_pct

    async def look(self) -> Observation:
        try:
            total, available = self._read()
        except OSError as exc:
            raise CannotLook(f"memory of the host: {exc.strerror or exc}") from exc
        return Observation(node=(judge(total, available, self._available_pct),))


def judge(total: int, available: int, limit_pct: float) -> NodeFinding:
    active = available < total * limit_pct / 100
    evidence = {"available": f"{available // MB} of {total // MB} MB"} if active else {}
    return NodeFinding("NW-MEMORY-LOW", active, evidence=evidence)


def make(config: AgentConfig, sensors: Sensors) -> HostMemory:
    import psutil

    def read() -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.total, memory.available

    return HostMemory(config.poll.host_s, read, available_pct=config.probes.host_memory.available_pct)
