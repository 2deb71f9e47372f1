"""File systems of the agent's state and of the kubelet: full, or mounted read-only (psutil, statvfs).

A read-only file system under the kubelet means that no pod can be started here: hard evidence. A directory that is not
there is looked for at its nearest parent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent.config import AgentConfig
from agent.detect.readings import NodeFinding
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.reach import why_not


class HostDisk:
    name = "host_disk"
    timeout_s = 5.0

    def __init__(self, period_s: float, places: Iterable[Path], *, used_pct: float) -> None:
        self.period_s = period_s
        self._places, self._used_pct = tuple(dict.fromkeys(places)), used_pct
        self._thread = OwnThread("statvfs")

    async def look(self) -> Observation:
        try:
            seen = await self._thread.run(lambda: {str(place): look_at(place) for place in self._places})
        except OSError as exc:
            raise CannotLook(why_not(exc)) from exc
        return Observation(node=judge(seen, self._used_pct))


def look_at(place: Path) -> tuple[float, bool]:
    """(percent used, read-only) of the file system. Raises OSError."""
    import psutil

    while not place.exists() and place != place.parent:
        place = place.parent
    read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    return psutil.disk_usage(str(place)).percent, read_only


def judge(seen: dict[str, tuple[float, bool]], limit_pct: float) -> tuple[NodeFinding, ...]:
    """A read-only file system is not called full as well: nobody can write to it anyway."""
    full = {
        place: f"{used:g} % used" for place, (used, read_only) in seen.items() if used >= limit_pct and not read_only
    }
    stuck = {place: "mounted read-only" for place, (_, read_only) in seen.items() if read_only}
    return (
        NodeFinding("NW-DISK-FULL", bool(full), evidence=full),
        NodeFinding("NW-DISK-READONLY", bool(stuck), evidence=stuck),
    )


def make(config: AgentConfig, sensors: Sensors) -> HostDisk:
    places = (Path(config.paths.state_dir), Path(config.paths.kubelet_dir))
    return HostDisk(config.poll.host_s, places, used_pct=config.probes.host_disk.used_pct)
