"""Asking the driver for gauges of all chips: what the probes of gauges share."""

from __future__ import annotations

from agent.probe import CannotLook, partly
from agent.sensors.gauges import Gauges, Measured

PERIOD_S = 30.0
TIMEOUT_S = 60.0
"""Far above the sum of the sensor's own deadlines, which also has to wait for a poll of the chips."""


async def measured(gauges: Gauges, what: str) -> tuple[tuple[Measured, ...], str | None]:
    """The chips with their gauges, and why some are missing. Raises CannotLook when nobody can be asked."""
    chips = await gauges.measure(what)
    if chips is None:
        raise CannotLook("the driver cannot be asked; chip_health says why")
    return chips, partly([f"chip {one.chip.phy}: {one.unknown}" for one in chips if one.unknown])
