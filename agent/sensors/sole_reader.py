"""A claim on something that reading changes, held as long as the process lives: there is one reader on a host."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class SoleReader:
    """`path`: the lock file. None where none can be written: then nobody else is known of."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: int | None = None

    def claims(self) -> bool:
        """Whether this process may read. Raises OSError when that cannot be told."""
        if self._path is None or self._lock is not None:
            return True
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
