"""The decision log: what was done, refused, and asked for by people, a JSON line each, appended and never rewritten.

Written by a thread of its own with a bounded queue: a full or hanging disk costs lines, which are counted, and never
holds up a decision. Files are rotated by size, so that the log cannot fill the disk itself.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Iterator, Sequence
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any

import msgspec

from reconciler.core import clock
from reconciler.core.actions import BOOKKEEPING, Action, Hold, Isolate, Release
from reconciler.core.calls import Call, Outcome
from reconciler.metrics import Metrics
from shared.config import ConfigError
from shared.model import Instant

FILE_BYTES = 32 * 2**20
FILES = 4
WAITING_LINES = 10_000
LINES_A_PLAN = 1_000
"""Refusals that begin or end with one plan; a storm of them is counted beyond it."""


class Decisions:
    """`done` after each action, `held` after each plan, `asked` for each wish. Without a path nothing is kept."""

    def __init__(self, path: Path | None, holder: str, metrics: Metrics) -> None:
        self._path, self._holder, self._metrics = path, holder, metrics
        self._lines: queue.Queue[Any] = queue.Queue(WAITING_LINES)
        self._handler = _Counted(self._lines, metrics)
        self._refused: dict[tuple[str, str], str] = {}

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the daemon runs. Raises ConfigError when the file cannot be opened now; later troubles are counted."""
        if self._path is None:
            yield
            return
        try:
            file = _File(self._path, self._metrics)
        except OSError as exc:
            raise ConfigError(f"decisions: cannot append to {self._path}: {exc.strerror or exc}") from exc
        listener = QueueListener(self._lines, file)
        listener.start()
        try:
            yield
        finally:
            listener.stop()
            with contextlib.suppress(OSError):  # what the disk did not take has been counted
                file.close()

    def done(self, action: Action, outcome: Outcome, now: Instant) -> None:
        """One action and what came of it."""
        if isinstance(action, BOOKKEEPING):
            return
        why = _why(action)
        told = {"action": type(action).__name__, "object": action.key, "done": outcome.done}
        self._write(now, told | why | _given(reason=outcome.reason, message=outcome.message))

    def asked(self, told: Call, now: Instant) -> None:
        """A person's wish, or its end, as the Event says it: what, of which object, who and why."""
        about = told.body["involvedObject"]
        line = {"asked": told.body["reason"], "object": f"{about['kind']}/{about['name']}"}
        self._write(now, line | _given(message=told.body["message"]))

    def held(self, holds: Sequence[Hold], now: Instant) -> None:
        """The refusals of the newest plan: a line when one begins, and one when it ends."""
        newest = {(hold.subject, hold.reason): hold.message for hold in holds}
        begun = [key for key in newest if key not in self._refused]
        ended = [key for key in self._refused if key not in newest]
        for word, keys in (("held", begun), ("hold-ended", ended)):
            for subject, reason in keys[:LINES_A_PLAN]:
                message = newest.get((subject, reason), "")
                self._write(now, {word: reason, "object": subject} | _given(message=message))
            if len(keys) > LINES_A_PLAN:
                self._write(now, {word: "", "message": f"and {len(keys) - LINES_A_PLAN} more"})
        self._refused = newest

    def _write(self, now: Instant, line: dict[str, Any]) -> None:
        if self._path is not None:
            text = msgspec.json.encode({"at": clock.rfc3339(now.wall), "by": self._holder} | line).decode()
            self._handler.handle(logging.LogRecord("decisions", logging.INFO, "", 0, text, None, None))


def _why(action: Action) -> dict[str, Any]:
    if isinstance(action, Isolate):
        return {"taint": f"{action.want.value}:{action.want.effect}", "why": list(action.record.reasons)}
    if isinstance(action, Release):
        return {"why": [action.why]}
    recovery = getattr(action, "recovery", None)
    spec = getattr(action, "spec", None) or getattr(recovery, "spec", None)
    status = getattr(action, "status", None)
    found: dict[str, Any] = {}
    if spec is not None:
        found = {"unit": spec.unit, "why": list(spec.cause.faults)}
    if status is not None:
        found["phase"] = status.phase
    if (victims := getattr(action, "victims", None)) is not None:
        found["pods"] = [f"{victim.namespace}/{victim.name}" for victim in victims]
    return found


def _given(**texts: str) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


class _Counted(QueueHandler):
    """Drops a line when the disk is too slow for all of them."""

    def __init__(self, lines: queue.Queue[Any], metrics: Metrics) -> None:
        super().__init__(lines)
        self._metrics = metrics

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._metrics.lost_decisions.inc()


class _File(RotatingFileHandler):
    def __init__(self, path: Path, metrics: Metrics) -> None:
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8")
        self._metrics = metrics

    def handleError(self, record: logging.LogRecord) -> None:
        self._metrics.lost_decisions.inc()
