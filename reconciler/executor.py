"""The only hand: carries out what the newest plan says, one action per key at a time, and reports what came of it.

A key that fails is left alone for a while. A newer plan replaces whatever of the older one has not begun: every
action carries its own preconditions, but the fresh decision is the better one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.core.actions import (
    Action,
    Claim,
    DeletePods,
    Isolate,
    KeepOffered,
    KeepRecord,
    OpenRecovery,
    Progress,
    SetCondition,
)
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.metrics import Metrics
from shared.aio import cancel

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
AT_ONCE = 32
TELLING_AT_ONCE = 4
"""So many of them may only tell: they cost the API server as much as the taint that comes meanwhile."""
_TELLS = (SetCondition, KeepRecord, KeepOffered)
BACKOFF_S = (0.2, 30.0)
FORGET_AFTER_S = 120.0
LONGEST_ASKED_S = 60.0
_TAKEN = Reply(202)
"""The answer to a call that is carried out aside."""
CRASH_AT = "NPUWARDEN_CRASH_AT"
"""Test hook: the process dies, as if by SIGKILL, right after the named point of a recovery (see `_crash_point`)."""


class Sender(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...


@dataclass(slots=True)
class _Backoff:
    failures: int
    until: float


class Executor:
    """send: the API server. steps: an action's calls. outcome: told what came of each action, before the next begins.

    valid_until: monotonic second after which this replica's lease may have passed on; no write begins later than a
    request's time-out before it. aside: takes the calls that no step waits for. before: awaited before each action
    begins; bounded in time, and what it does decides nothing.
    """

    def __init__(
        self,
        client: Sender,
        steps: Callable[[Action], Step],
        outcome: Callable[[Action, Outcome], None],
        valid_until: Callable[[], float],
        aside: Callable[[Call], None],
        metrics: Metrics,
        before: Callable[[Action], Awaitable[None]] | None = None,
    ) -> None:
        self._client, self._steps, self._outcome, self._aside = client, steps, outcome, aside
        self._before = before
        self._valid_until, self._metrics = valid_until, metrics
        self._waiting: dict[str, list[Action]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._telling: set[str] = set()
        """Keys of `_running` whose first action only tells."""
        self._backoffs: dict[str, _Backoff] = {}
        self._ended: dict[str, float] = {}
        self._plan = 0
        self._crash_at = os.environ.get(CRASH_AT, "")

    def take(self, actions: Sequence[Action], *, as_of: float) -> None:
        """A new plan, made from what was known at `as_of` (monotonic seconds).

        What runs goes on, what has not begun is replaced by this. A key whose outcome came after `as_of` is left to
        the next plan: this one did not know of it and would do the same again.
        """
        self._plan += 1
        self._waiting.clear()
        self._ended = {key: at for key, at in self._ended.items() if at >= as_of}
        for action in actions:
            if action.key not in self._running and action.key not in self._ended:
                self._waiting.setdefault(action.key, []).append(action)
        self._begin()

    def wake_at(self) -> float | None:
        """When the next key may be tried again (monotonic seconds)."""
        now = time.monotonic()
        return min((b.until for b in self._backoffs.values() if b.until > now), default=None)

    async def close(self) -> None:
        """End what runs; whether a request in flight was carried out is for the next plan to see."""
        self._waiting.clear()
        await cancel(*self._running.values())

    def _begin(self) -> None:
        now = time.monotonic()
        for key in [k for k, b in self._backoffs.items() if b.until < now - FORGET_AFTER_S]:
            del self._backoffs[key]
        for key in list(self._waiting):
            if len(self._running) >= AT_ONCE:
                break
            tells = isinstance(self._waiting[key][0], _TELLS)
            if tells and len(self._telling) >= TELLING_AT_ONCE:
                break  # they are the last of every plan: what follows only tells, too
            held = self._backoffs.get(key)
            if held is None or held.until <= now:
                actions = self._waiting.pop(key)
                if tells:
                    self._telling.add(key)
                self._running[key] = asyncio.create_task(self._work(key, actions, self._plan), name=f"action {key}")
        self._metrics.queue.set(len(self._waiting) + len(self._running))
        self._metrics.backing_off.set(sum(b.until > now for b in self._backoffs.values()))

    async def _work(self, key: str, actions: list[Action], plan: int) -> None:
        try:
            for action in actions:
                done = await self._carry_out(action)
                if not done or plan != self._plan:
                    break
        finally:
            del self._running[key]
            self._telling.discard(key)
            self._ended[key] = time.monotonic()
            self._begin()

    async def _carry_out(self, action: Action) -> bool:
        kind, started = type(action).__name__, time.monotonic()
        try:
            if self._before is not None:
                await self._before(action)
            outcome, asked_s = await self._drive(action)
        except Exception as exc:
            log.exception("%s %s: a bug stopped it half-way; the next plan decides anew", kind, action.key)
            outcome, asked_s = Outcome(False, "bug", str(exc)), 0.0
        self._metrics.actions.labels(kind, "done" if outcome.done else outcome.reason or "failed").inc()
        if outcome.done:
            self._backoffs.pop(action.key, None)
            # Bookkeeping on every node at every start would bury the lines that matter.
            level = logging.DEBUG if isinstance(action, _TELLS) else logging.INFO
            log.log(level, "%s %s: done in %.0f ms", kind, action.key, (time.monotonic() - started) * 1000)
            self._crash_point(_point_after(action))
        else:
            wait_s = self._back_off(action.key, asked_s)
            log.warning(
                "%s %s: not done (%s): %s; tried again in %.1f s if it is still wanted",
                *(kind, action.key, outcome.reason, outcome.message, wait_s),
            )
        self._outcome(action, outcome)
        return outcome.done

    async def _drive(self, action: Action) -> tuple[Outcome, float]:
        """Run the step's calls; also the longest wait that the server asked for."""
        step, asked_s = self._steps(action), 0.0
        try:
            call = next(step)
            while True:
                if call.aside:
                    self._aside(call)
                    call = step.send(_TAKEN)
                    continue
                if call.method != "GET" and time.monotonic() > self._valid_until() - REQUEST_TIMEOUT_S:
                    return Outcome(False, "lease", "the lease may pass on before this write ends"), 0.0
                reply = await self._client.send(call, timeout_s=REQUEST_TIMEOUT_S)
                asked_s = max(asked_s, _asked_delay_s(reply))
                if call.method == "DELETE" and reply.ok:
                    self._crash_point("after-first-delete")
                call = step.send(reply)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome, asked_s
        finally:
            step.close()

    def _back_off(self, key: str, asked_s: float) -> float:
        failures = self._backoffs[key].failures + 1 if key in self._backoffs else 1
        ceiling = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(failures - 1, 10))
        wait_s = max(asked_s, random.uniform(ceiling / 2, ceiling))
        self._backoffs[key] = _Backoff(failures, time.monotonic() + wait_s)
        return wait_s

    def _crash_point(self, point: str | None) -> None:
        if point is not None and point == self._crash_at:
            os._exit(137)


def _point_after(action: Action) -> str | None:
    """The named points in a recovery's order: open, taint, claim, first delete, all deletes, replacements exist."""
    match action:
        case OpenRecovery():
            return "after-open"
        case Isolate():
            return "after-taint"
        case Claim():
            return "after-claim"
        case DeletePods():
            return "after-deletes"
        case Progress(status=status) if status.phase == "Recreating":
            return "after-recreating"
    return None


def _asked_delay_s(reply: Reply) -> float:
    """Seconds that the server asked to wait (429, 503), else 0. At most a minute: a proxy may ask for a day."""
    details = reply.body.get("details")
    wait = details.get("retryAfterSeconds", 0) if isinstance(details, dict) else 0
    return min(float(wait), LONGEST_ASKED_S) if isinstance(wait, (int, float)) else 0.0
