"""When a look counts: two small memories that probes judge with. Neither reads a clock.

Both answer True, False, or None: not to be told yet. Then the probe says nothing of the code, so that a fault the
agent has reported before its restart stays until the new process knows better.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable


class Recent:
    """Happenings that leave no state behind: `limit` of one key within `window_s` seconds are a finding.

    `began`: the monotonic time from which on happenings are seen.
    """

    def __init__(self, *, window_s: float, limit: int, began: float) -> None:
        self._window_s, self._limit, self._began = window_s, limit, began
        self._times: dict[Hashable, deque[float]] = {}

    def note(self, key: Hashable, at: float, times: int = 1) -> None:
        """It has happened `times` times; more than the limit need not be remembered."""
        self._times.setdefault(key, deque(maxlen=self._limit)).extend([at] * min(times, self._limit))

    def missed(self, at: float) -> None:
        """Happenings up to `at` may have gone unseen: what is known stays, and nothing is denied for a window."""
        self._began = at

    def judge(self, key: Hashable, now: float) -> bool | None:
        times = self._times.get(key, deque())
        while times and times[0] <= now - self._window_s:
            times.popleft()
        if len(times) >= self._limit:
            return True
        return False if now - self._began >= self._window_s else None


class Streak:
    """A condition that counts once it has been seen in `need` looks in a row; one good look ends it."""

    def __init__(self, need: int) -> None:
        self._need = need
        self._seen: dict[Hashable, int] = {}

    def judge(self, key: Hashable, bad: bool) -> bool | None:
        if not bad:
            self._seen.pop(key, None)
            return False
        self._seen[key] = min(self._seen.get(key, 0) + 1, self._need)
        return True if self._seen[key] >= self._need else None
