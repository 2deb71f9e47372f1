"""When to try again: chips whose calls hung, and enumerations that look stale. Pure; `now` is monotonic seconds."""

from __future__ import annotations

import msgspec

from agent.detect.readings import ChipIdentity
from agent.sensors.worker import Ref

RETRY_FIRST_S, RETRY_MAX_S = 15.0, 60.0
FAST_RENEWALS = 4
RENEWAL_S = 30.0
START_FIRST_S, START_MAX_S = 5.0, 30.0


class Hung(msgspec.Struct):
    """A chip that is left out because a call to it did not come back; identity None when it hung before it had one."""

    ref: Ref
    identity: ChipIdentity | None
    why: str
    retry_at: float
    pause_s: float


class Quarantine:
    """The chips a child must not touch, because a call to them has hung. Each is retried alone, ever more rarely."""

    def __init__(self) -> None:
        self._hung: dict[Ref, Hung] = {}

    def __len__(self) -> int:
        return len(self._hung)

    @property
    def refs(self) -> tuple[Ref, ...]:
        return tuple(self._hung)

    @property
    def chips(self) -> tuple[Hung, ...]:
        return tuple(self._hung.values())

    def add(self, ref: Ref, identity: ChipIdentity | None, why: str, now: float) -> None:
        old = self._hung.get(ref)
        pause_s = RETRY_FIRST_S if old is None else min(2 * old.pause_s, RETRY_MAX_S)
        known = identity or (old.identity if old else None)
        self._hung[ref] = Hung(ref, known, why, now + pause_s, pause_s)

    def remove(self, ref: Ref) -> None:
        self._hung.pop(ref, None)

    def hurry(self, now: float) -> None:
        """A call that hung has come back: look again at once."""
        for hung in self._hung.values():
            hung.retry_at = now

    def due(self, now: float) -> Hung | None:
        return next((hung for hung in self._hung.values() if hung.retry_at <= now), None)


class Renewal:
    """When a fresh child should enumerate anew. The driver freezes its card list at init, so what vanished or came
    back shows in a new process only: at once when something looks odd, then for a few polls, then every 30 s."""

    def __init__(self) -> None:
        self._odd_rounds = 0
        self._wanted = True
        self._last = float("-inf")

    def ask(self) -> None:
        self._wanted = True

    def done(self, now: float) -> None:
        self._wanted, self._last = False, now

    def note(self, odd: bool) -> None:
        self._odd_rounds = self._odd_rounds + 1 if odd else 0

    def due(self, now: float) -> bool:
        if self._wanted:
            return True
        return self._odd_rounds > 0 and (self._odd_rounds <= FAST_RENEWALS or now - self._last >= RENEWAL_S)


class Backoff:
    """Pauses between attempts to start, doubling."""

    def __init__(self, first_s: float = START_FIRST_S, max_s: float = START_MAX_S) -> None:
        self._first_s, self._max_s = first_s, max_s
        self._pause_s = 0.0
        self._until = float("-inf")

    def failed(self, now: float) -> None:
        self._pause_s = min(2 * self._pause_s, self._max_s) if self._pause_s else self._first_s
        self._until = now + self._pause_s

    def succeeded(self) -> None:
        self._pause_s, self._until = 0.0, float("-inf")

    def waiting(self, now: float) -> bool:
        return now < self._until
