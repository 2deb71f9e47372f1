"""Whether it can be read which pods hold which chips: without it a fault names no pod, or one that is gone."""

from __future__ import annotations

from pathlib import Path

from agent.config import AgentConfig
from agent.probe import CannotLook, Observation, PodSource, Sensors
from agent.sensors.reach import may_be_directory


class PodDevices:
    name = "pod_devices"
    timeout_s = 5.0

    def __init__(self, period_s: float, pods: PodSource) -> None:
        self.period_s = period_s
        self._pods = pods

    async def look(self) -> Observation:
        await self._pods.look()
        if self._pods.error is not None:
            raise CannotLook(f"{self._pods.error}; which pods hold which chips stays as it was")
        return Observation()


def make(config: AgentConfig, sensors: Sensors) -> PodDevices | None:
    if sensors.pods is None or not may_be_directory(Path(config.paths.kubelet_dir)):
        return None
    return PodDevices(config.poll.host_s, sensors.pods)
