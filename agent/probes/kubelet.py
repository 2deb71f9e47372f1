"""Whether the kubelet says that it is well: its healthz, GET on loopback.

Nothing listens there and no kubelet runs: this host may have none, or another kind, so that is unknown. A kubelet that
runs and does not answer, or one that has answered before, is a fault after `looks` looks.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp

from agent.config import AgentConfig
from agent.detect.readings import NodeFinding
from agent.evidence import Streak
from agent.limits import Kubelet as KubeletLimits
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.reach import may_be_directory

CODE = "NW-KUBELET"
MAX_TEXT = 120


class Kubelet:
    name = "kubelet"

    def __init__(self, period_s: float, procfs: Path, limits: KubeletLimits) -> None:
        self.period_s = period_s
        self.timeout_s = limits.timeout_s + 5.0  # above the deadline of the request, which says more
        self._procfs, self._limits = procfs, limits
        self._bad = Streak(limits.looks)
        self._answered = False
        self._thread = OwnThread("/proc")

    async def look(self) -> Observation:
        why = await self._ask()
        bad = self._bad.judge(CODE, why is not None)
        if bad is None:
            return Observation()
        return Observation(node=(NodeFinding(CODE, bad, evidence={"healthz": why} if why else {}),))

    async def _ask(self) -> str | None:
        """None: it is well. Otherwise what is wrong. Raises CannotLook."""
        url = self._limits.url
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._limits.timeout_s)) as session,
                session.get(url) as answer,
            ):
                self._answered = True
                if answer.status == 200:
                    return None
                return f"{url} answered {answer.status}: {(await answer.text(errors='replace'))[:MAX_TEXT]}"
        except aiohttp.ClientConnectorError as exc:
            if not self._answered and not await self._thread.run(lambda: runs(self._procfs)):
                raise CannotLook(f"no kubelet runs here, and nothing listens at {url}") from exc
            return f"{url}: {exc.strerror or exc}"
        except (aiohttp.ClientError, TimeoutError) as exc:
            return (
                f"{url}: no answer within {self._limits.timeout_s:g} s" if isinstance(exc, TimeoutError) else str(exc)
            )


def runs(procfs: Path) -> bool:
    """Whether a process of that name is there."""
    for comm in procfs.glob("[0-9]*/comm"):
        try:
            if comm.read_text(encoding="ascii", errors="replace").strip() == "kubelet":
                return True
        except OSError:  # it has ended meanwhile
            continue
    return False


def make(config: AgentConfig, sensors: Sensors) -> Kubelet | None:
    if not may_be_directory(Path(config.paths.kubelet_dir)):
        return None
    return Kubelet(config.poll.host_s, Path(config.paths.procfs), config.probes.kubelet)
