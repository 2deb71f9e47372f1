"""Whether the container runtime serves on its socket: without it no pod starts, and none that runs can be stopped.

The sockets are looked for in the file system of process 1, which needs hostPID. One that has never answered may be of a
runtime that nobody uses: only one that has is missed, and that is remembered over restarts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from agent.config import AgentConfig
from agent.detect.readings import NodeFinding
from agent.evidence import Streak
from agent.limits import Runtime as RuntimeLimits
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.cri import Silent, hear
from agent.sensors.reach import may_be_directory
from shared.model import Instant

CODE = "NW-RUNTIME"
SOCKETS = (
    "run/containerd/containerd.sock",
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
    "run/isulad.sock",
    "run/k3s/containerd/containerd.sock",
)


class Runtime:
    name = "runtime"

    def __init__(self, period_s: float, root: Path, limits: RuntimeLimits) -> None:
        self.period_s = period_s
        self.timeout_s = len(SOCKETS) * limits.timeout_s + 5.0  # above the deadlines of all, which say more
        self._root, self._limits = root, limits
        self._bad = Streak(limits.looks)
        self._answered: set[str] = set()

    async def look(self) -> Observation:
        silent: dict[str, str] = {}
        for place in SOCKETS:
            if place not in self._answered and not _exists(self._root / place):
                continue
            try:
                await hear(self._root / place, self._limits.timeout_s)
                self._answered.add(place)
            except Silent as exc:
                silent[f"/{place}"] = str(exc)
        if not self._answered:
            raise CannotLook("; ".join(f"{place}: {why}" for place, why in silent.items()) or "no runtime has a socket")
        missed = {place: why for place, why in silent.items() if place[1:] in self._answered}
        bad = self._bad.judge(CODE, bool(missed))
        return Observation(node=() if bad is None else (NodeFinding(CODE, bad, evidence=missed),))

    def memory(self) -> Any:
        return sorted(self._answered)

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        """Another boot may be one with another runtime."""
        if same_boot:
            self._answered = set(msgspec.json.decode(kept, type=list[str])) & set(SOCKETS)


def _exists(path: Path) -> bool:
    """False also where it may not be looked at."""
    return os.path.exists(path)


def make(config: AgentConfig, sensors: Sensors) -> Runtime | None:
    root = Path(config.paths.procfs) / "1/root"
    if not any(_exists(root / place) for place in SOCKETS) or not may_be_directory(Path(config.paths.kubelet_dir)):
        return None
    return Runtime(config.poll.host_s, root, config.probes.runtime)
