"""/dev/kmsg: the kernel's messages, the whole ring first and then what is new, each with the time of its printing.

Source: Documentation/ABI/testing/dev-kmsg. One read gives one record `priority,sequence,microseconds,flags;text`,
continued by lines that begin with a space. The stamp is of the kernel's own clock, which drifts against the monotonic
one by seconds a day: good enough for history, while what is read live has just happened.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import msgspec

from shared.model import Instant

READ_BYTES = 8192
MAX_RECORD_BYTES = 64 << 10
"""A record of the kernel fits into one read; what has no end after so much is some other file."""
MAX_RECORDS = 5000
"""In one call; the rest of a storm, or of a long history, waits in the kernel's ring for the next."""
_RECORD = re.compile(r"[0-9]+,([0-9]{1,18}),([0-9]{1,18}),[^;]*;(.*)")
"""Numbers of the kernel have 64 bits; a longer one is damage, and more than int() takes."""


class Message(msgspec.Struct, frozen=True):
    """`wall`, `mono`: when the kernel printed it, on both clocks. `seq` counts the records of a boot from 0."""

    text: str
    wall: float
    mono: float
    seq: int


class Kmsg:
    """Reads without waiting, from the oldest record that the ring still has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.more = False
        """The last call has stopped at its limit and not at the end of the log."""
        self._fd: int | None = None
        self._rest = b""

    def open(self) -> None:
        """Raises OSError; harmless when it is open already."""
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

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
        self.more = True
        while len(lines) < MAX_RECORDS:
            try:
                part = os.read(self._fd, READ_BYTES)
            except OSError as exc:
                if exc.errno == errno.EPIPE:  # the ring has overtaken us: the next read is the oldest record there is
                    continue
                if exc.errno != errno.EAGAIN:
                    raise
                part = b""
            if not part:
                self.more = False
                break
            *whole, self._rest = (self._rest + part).split(b"\n")
            lines += [line.decode(errors="replace") for line in whole]
            if len(self._rest) > MAX_RECORD_BYTES:
                raise OSError(errno.EBADMSG, "not a kernel log: a record without an end")
        return lines


def parse(line: str, now: Instant) -> Message | None:
    """None for continuation lines and whatever else is no record."""
    found = _RECORD.match(line)
    if found is None:
        return None
    age_s = max(0.0, now.mono - int(found[2]) / 1e6)
    return Message(text=found[3], wall=now.wall - age_s, mono=now.mono - age_s, seq=int(found[1]))
