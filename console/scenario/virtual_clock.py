"""The virtual cluster's clock: seconds since the start of a scenario, as both clocks of the reconciler see them."""

from __future__ import annotations

from datetime import UTC, datetime

from console.scenario.common import START_WALL_S
from shared.model import Instant

MONO_AT_START = 3600.0
"""Monotonic time of second 0: whatever began at monotonic 0 is an hour old, the leader's term too."""


class Clock:
    """Stands still until somebody moves it forward."""

    def __init__(self) -> None:
        self.t = 0.0

    def advance_to(self, t: float) -> None:
        if t < self.t:
            raise ValueError(f"the clock stands at {self.t:g} s and cannot go back to {t:g} s")
        self.t = t

    def now(self) -> Instant:
        return Instant(mono=MONO_AT_START + self.t, wall=START_WALL_S + self.t)

    def wall(self) -> float:
        return START_WALL_S + self.t

    def timestamp(self) -> str:
        """Now, with the precision of Kubernetes' own times: `2026-01-01T01:00:10Z`."""
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
