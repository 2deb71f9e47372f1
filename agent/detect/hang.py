"""Whether a chip hangs: processes hold it, and nothing of what they do moves on. Pure; times are monotonic seconds.

The vendor's rule (device plugin, fault 200001002): AICore use, growth of HBM use, packets of its ports and CPU time of
the processes all below their limits, in so many looks in a row. An input that cannot be read never makes a hang, and
never ends one; a single sign of life does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

MINUTE_S = 60.0
TOO_LONG_S = 180.0
"""Two looks that lie further apart, as after a stop of the agent, are not compared."""


class Work(msgspec.Struct, frozen=True):
    """What one look has seen of one chip; None = it could not be read.

    processes: (id, start in clock ticks) of each that holds the chip. cpu_s: what they have used since they started.
    packets: sent and received since the start of the device.
    """

    at: float
    processes: tuple[tuple[int, int], ...] | None = None
    aicore_pct: float | None = None
    hbm_pct: float | None = None
    packets: int | None = None
    cpu_s: float | None = None


class Watched(msgspec.Struct, frozen=True):
    """What is known of a chip: its newest look, and how many in a row up to it were idle."""

    last: Work
    idle_looks: int


class IdleBelow(msgspec.Struct, frozen=True):
    """From these values on a chip works."""

    aicore_pct: float
    hbm_pct: float
    packets_per_min: float
    cpu_s_per_min: float


def idle(before: Work | None, now: Work, below: IdleBelow) -> bool | None:
    """Whether the chip has done nothing since `before` although it is held. None: that cannot be told."""
    if now.processes is None:
        return None
    if not now.processes or (now.aicore_pct is not None and now.aicore_pct >= below.aicore_pct):
        return False
    if before is None or before.processes is None or not 0 < now.at - before.at <= TOO_LONG_S:
        return None
    if before.processes != now.processes:
        return False
    minutes = (now.at - before.at) / MINUTE_S
    rises = (
        (_rise(before.hbm_pct, now.hbm_pct), below.hbm_pct, False),
        (_rise(before.packets, now.packets), below.packets_per_min * minutes, True),
        (_rise(before.cpu_s, now.cpu_s), below.cpu_s_per_min * minutes, True),
    )
    if any(rise is not None and (rise > limit or (at_limit and rise == limit)) for rise, limit, at_limit in rises):
        return False
    # HBM may be given back; counters that fall have begun anew, and what they counted before that is not known
    counted = all(rise is not None and rise >= 0 for rise, _, _ in rises[1:])
    return True if counted and rises[0][0] is not None and now.aicore_pct is not None else None


def _rise(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else now - before


class HangWatch:
    """Counts idle looks of each chip; `looks` in a row are a hang."""

    def __init__(self, below: IdleBelow, looks: int) -> None:
        self._below, self._looks = below, looks
        self._last: dict[int, Work] = {}
        self._idle: dict[int, int] = {}

    def see(self, phy: int, work: Work) -> bool | None:
        """True: it hangs. False: it does not. None: not to be told yet, what was said before stays."""
        still = idle(self._last.get(phy), work, self._below)
        self._last[phy] = work
        self._idle[phy] = self._idle.get(phy, 0) + 1 if still else 0
        if still is None or 0 < self._idle[phy] < self._looks:
            return None
        return still

    def memory(self) -> dict[int, Watched]:
        return {phy: Watched(work, self._idle.get(phy, 0)) for phy, work in self._last.items()}

    def recall(self, kept: Mapping[int, Watched]) -> None:
        """What an earlier process of this boot has seen. A count goes on only if the next look follows soon enough."""
        self._last = {phy: one.last for phy, one in kept.items()}
        self._idle = {phy: one.idle_looks for phy, one in kept.items()}

    def idle_looks(self, phy: int) -> int:
        return self._idle.get(phy, 0)

    def keep(self, phys: set[int]) -> None:
        """Forget chips that are not there any more."""
        self._last = {phy: work for phy, work in self._last.items() if phy in phys}
        self._idle = {phy: count for phy, count in self._idle.items() if phy in phys}
