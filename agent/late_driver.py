"""A driver that is installed after the agent: what it looks through is chosen once, so its process ends and the next
one chooses anew. The DaemonSet starts it within seconds, and its state file has everything."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from agent.config import Paths
from agent.probe import NoDriver
from agent.sensors import npu_smi
from agent.sensors.dcmi_library import find_library
from agent.sensors.process import find_tool

log = logging.getLogger(__name__)

LOOKS = 2
"""A package that is being unpacked is given a moment more."""


def better(paths: Paths, having: str) -> Path | None:
    """A way to the chips that is there now and better than `having` (ChipSource.name); None when there is none."""
    library = find_library(paths.dcmi)
    if having == npu_smi.NpuSmi.name:
        return library
    if having == NoDriver.name:
        return library or find_tool(paths.npu_smi, *npu_smi.PLACES)
    return None


async def end_when_installed(paths: Paths, having: str, stop: asyncio.Event, *, period_s: float) -> None:
    """Sets `stop` when a better driver has been there for some looks in a row; for ever where there is none."""
    seen = 0
    while True:
        await asyncio.sleep(period_s)
        found = better(paths, having)
        seen = seen + 1 if found else 0
        if seen >= LOOKS:
            log.warning("%s is there now; ending, so that the next process reads the chips through it", found)
            stop.set()
