"""The wall clock that replicas share: the API server's, from the `Date` of its answers.

What a leader writes into the cluster as a time (the end of a hold-down or a probation, the beginning of an isolation)
the next one reads by a clock of its own. Where that is right within the precision of `Date` it is used as it is; where
it is not, the API server's is carried on by the monotonic clock. Durations within one leader's time use neither.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from shared.model import Instant

log = logging.getLogger(__name__)

TOLERANCE_S = 2.0
"""`Date` has whole seconds, and an answer takes a moment."""
SLOW_S = 2.0
"""An answer that took longer says too little about its moment."""


class ClusterClock:
    """`heard` after each answer, `now` instead of this machine's own clocks. wall, mono: those, seconds."""

    def __init__(self, wall: Callable[[], float] = time.time, mono: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._mono = wall, mono
        self._offset: float | None = None
        self.ahead_s = 0.0
        """This machine's wall clock minus the API server's, as of its last answer."""

    def heard(self, date: str | None, asked_at: float) -> None:
        """The `Date` header of an answer; asked_at: monotonic second of its request."""
        mono, wall = self._mono(), self._wall()
        if date is None or mono - asked_at > SLOW_S:
            return
        try:
            theirs = parsedate_to_datetime(date).timestamp() + 0.5
        except (ValueError, TypeError, OverflowError):
            return
        self.ahead_s = wall - theirs
        if abs(self.ahead_s) <= TOLERANCE_S:
            if self._offset is not None:
                log.info("the clock of this machine agrees with the API server's again and is used")
            self._offset = None
        elif self._offset is None or abs(theirs - mono - self._offset) > TOLERANCE_S:
            if self._offset is None:
                way = "ahead of" if self.ahead_s > 0 else "behind"
                log.warning(
                    "the clock of this machine is %.0f s %s the API server's, whose time is used: check its NTP",
                    *(abs(self.ahead_s), way),
                )
            self._offset = theirs - mono

    def now(self) -> Instant:
        mono = self._mono()
        return Instant(mono, self._wall() if self._offset is None else mono + self._offset)
