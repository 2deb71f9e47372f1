"""How the latest looks of each probe went: one that fails again and again is never blind for long, and worth telling.

Counted in looks and not in seconds, so that a probe of 120 s and one of 5 s are measured alike. No clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

KEPT_LOOKS = 20
FAILED_LOOKS = 10
"""So many of the last KEPT_LOOKS in vain are often."""
GOOD, BAD = ".", "x"


class Looks:
    """For each probe its latest looks, oldest first, as a string of `.` and `x`; the form in which it is kept."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._looks = dict(kept)
        self._why: dict[str, str] = {}

    def note(self, probe: str, why: str | None) -> None:
        """One look, and why it was in vain."""
        self._looks[probe] = (self._looks.get(probe, "") + (GOOD if why is None else BAD))[-KEPT_LOOKS:]
        if why is not None:
            self._why[probe] = why

    def keep(self, probes: Collection[str]) -> None:
        """Forget the others."""
        self._looks = {name: looks for name, looks in self._looks.items() if name in probes}

    def failing_often(self) -> dict[str, str]:
        """Probe -> what can be said of it."""
        return {
            name: f"{failed} of its last {len(looks)} looks failed, the last: {self._why.get(name, 'not known')}"
            for name, looks in self._looks.items()
            if (failed := looks.count(BAD)) >= FAILED_LOOKS
        }

    def memory(self) -> dict[str, str]:
        """What `kept` gets after a restart. A probe that has never failed says nothing."""
        return {name: looks for name, looks in self._looks.items() if BAD in looks}
