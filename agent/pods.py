"""Which pods hold which chips, kept fresh: the kubelet's checkpoint is on a disk, and a disk can hang.

Read for every report, so that a fault names the pod that holds the chip now, and by a probe, so that it is told when
it cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent.own_thread import OwnThread
from agent.probe import CannotLook
from agent.sensors.kubelet import PodDevices

PATIENCE_S = 1.0
"""A report waits so long for it once; while the look hangs the next ones go out with what was known before."""


class HeldChips:
    """`error`: why the newest look was in vain; `pods` (physical id -> UIDs) is then of the last good one."""

    def __init__(self, devices: PodDevices) -> None:
        self.error: str | None = None
        self._devices = devices
        self._thread = OwnThread("the kubelet's device checkpoint")
        self._lock = asyncio.Lock()

    @property
    def pods(self) -> Mapping[int, tuple[str, ...]]:
        return self._devices.pods

    async def look(self) -> None:
        """Within PATIENCE_S."""
        async with self._lock:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._thread.run(self._devices.refresh)
            except TimeoutError:
                self.error = f"the kubelet's device checkpoint did not answer within {PATIENCE_S:g} s"
            except CannotLook as exc:
                self.error = str(exc)
            else:
                self.error = self._devices.error
