"""/dev/kmsg: the kernel's messages from now on, each with the wall time at which it was printed.

Source: Documentation/ABI/testing/dev-kmsg. One read gives one record `priority,sequence,microseconds,flags;text`,
continued by lines that begin with a space. The stamp is of the monotonic clock.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import msgspec

from shared.model import Instant

READ_BYTES = 8192
MAX_RECORDS = 5000
"""In one look; the rest of a storm waits in the kernel's ring for the next."""
_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")


class Message(msgspec.Struct, frozen=True):
    """`wall`: Unix time at which the kernel printed it."""

    text: str
    wall: float


class Kmsg:
    """Reads without waiting. What was printed before the first look is history and is skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._rest = b""

    def open(self) -> None:
        """Begin here. Raises OSError; harmless when it is open already."""
        if self._fd is None:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.lseek(fd, 0, os.SEEK_END)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd

    def new(self, now: Instant) -> list[Message]:
        """The records since the last call, oldest first. Raises OSError, and then begins anew at the next call."""
        try:
            self.open()
            return [message for line in self._lines() if (message := parse(line, now)) is not None]
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd, self._rest = None, b""

    def _lines(self) -> list[str]:
        assert self._fd is not None
        lines: list[str] = []
        while len(lines) < MAX_RECORDS:
            try:
                part = os.read(self._fd, READ_BYTES)
            except OSError as exc:
                if exc.errno == errno.EPIPE:  # the ring has overtaken us: the next read is the oldest record there is
                    continue
                if exc.errno == errno.EAGAIN:
                    break
                raise
            if not part:
                break
            *whole, self._rest = (self._rest + part).split(b"\n")
            lines += [line.decode(errors="replace") for line in whole]
        return lines


def parse(line: str, now: Instant) -> Message | None:
    """None for continuation lines and whatever else is no record."""
    found = _RECORD.match(line)
    if found is None:
        return None
    age_s = now.mono - int(found[1]) / 1e6
    return Message(text=found[2], wall=now.wall - max(0.0, age_s))
