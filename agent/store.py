"""The agent's state on disk: detection's memory and the outbox, in one SQLite file, changed in one transaction.

WAL with synchronous=NORMAL: a killed agent loses nothing, a power cut loses at most the newest transactions and never
the file's consistency. Whatever is wrong with the disk, the agent goes on from memory and says so.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from agent import state_file

log = logging.getLogger(__name__)

FILE = "agent.db"
MAX_NOTES = 100_000
"""Newest change notes that are kept through an outage of Redis; about 30 MB."""
MAX_UNSAVED = 10_000
"""The same in memory, while the disk refuses."""
MAX_BEGUN = 10_000
"""Commands that are remembered; the reconciler has a few hundred under way, and a flood must not fill the disk."""
REOPEN_S = 30.0
"""Between two tries to open a file that could not be opened at the start."""


class Store:
    """Not thread-safe: one caller at a time. `problem` is None while the disk does what it should."""

    def __init__(self, directory: Path, *, max_notes: int = MAX_NOTES) -> None:
        self.path = directory / FILE
        self.problem: str | None = None
        self.dropped = 0
        self._max_notes = max_notes
        self._sent = 0
        """Notes up to this id have been sent, also those that the disk has refused to forget."""
        self._unsaved: deque[tuple[int, bytes]] = deque(maxlen=MAX_UNSAVED)
        self._reopen_at: float | None = None
        """Set while the file cannot be opened: everything is in memory until then at least."""
        self._seen = True
        """What the file held at the start is known, although it may not have been opened for writing."""
        self._db = self._open()
        self._next_id = self._newest_id() + 1

    def memory(self) -> bytes | None:
        """What `save` kept last, also by an earlier process."""
        try:
            row = self._db.execute("SELECT value FROM memory").fetchone()
        except sqlite3.Error as exc:
            self._failed(exc)
            return None
        return bytes(row[0]) if row else None

    def save(self, memory: bytes, notes: Sequence[bytes]) -> None:
        """Memory and new notes, all or nothing. A failure is told in `problem`; the notes are kept in memory then."""
        for note in notes:
            self._unsaved.append((self._next_id, note))
            self._next_id += 1
        if self._reopen_at is not None and time.monotonic() >= self._reopen_at:
            self._reopen()
        try:
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO memory VALUES (1, ?)", (memory,))
                self._db.executemany("INSERT OR IGNORE INTO outbox VALUES (?, ?)", self._unsaved)
                self._db.execute("DELETE FROM outbox WHERE id <= ?", (self._sent,))
                oldest = self._next_id - self._max_notes
                gone = self._db.execute("DELETE FROM outbox WHERE id < ?", (oldest,)).rowcount if notes else 0
        except sqlite3.Error as exc:
            self._failed(exc)
            return
        self._unsaved.clear()
        self.dropped += gone
        self._worked()

    def pending(self, limit: int) -> list[tuple[int, bytes]]:
        """The oldest notes that have not been sent, at most `limit`, as (id, note)."""
        try:
            query = "SELECT id, note FROM outbox WHERE id > ? ORDER BY id LIMIT ?"
            rows = self._db.execute(query, (self._sent, limit)).fetchall()
        except sqlite3.Error as exc:
            self._failed(exc)
            rows = []
        saved = [(number, bytes(note)) for number, note in rows]
        return saved if len(saved) == limit else [*saved, *self._unsaved][:limit]

    def count(self) -> int:
        """How many notes wait. From their ids, which have no gaps: 100,000 rows are not counted at every save."""
        query = "SELECT (SELECT max(id) FROM outbox) - (SELECT min(id) FROM outbox WHERE id > ?) + 1"
        try:
            (saved,) = self._db.execute(query, (self._sent,)).fetchone()
        except sqlite3.Error as exc:
            self._failed(exc)
            saved = 0
        return int(saved or 0) + len(self._unsaved)

    def forget(self, upto: int) -> None:
        """Notes with ids up to `upto` have been sent. They are not pending again, even while the disk keeps them."""
        self._sent = max(self._sent, upto)
        while self._unsaved and self._unsaved[0][0] <= upto:
            self._unsaved.popleft()
        try:
            with self._db:
                self._db.execute("DELETE FROM outbox WHERE id <= ?", (upto,))
        except sqlite3.Error as exc:
            self._failed(exc)

    def begin(self, command: str, until: float, now: float) -> bool:
        """Note that a command is carried out; False: it was begun before, also by an earlier process. Remembered until
        it expires (Unix time). While the disk refuses, the answer is True and the caller has to remember."""
        try:
            with self._db:
                self._db.execute("DELETE FROM commands WHERE until < ?", (now,))
                fresh = self._db.execute("INSERT OR IGNORE INTO commands VALUES (?, ?)", (command, until)).rowcount
                newest = "(SELECT max(rowid) FROM commands)"
                self._db.execute(f"DELETE FROM commands WHERE rowid <= {newest} - ?", (MAX_BEGUN,))
        except sqlite3.Error as exc:
            self._failed(exc)
            return True
        return fresh > 0

    def close(self) -> None:
        self._db.close()

    def _open(self) -> sqlite3.Connection:
        """The file; moved aside and started anew when it is no database of ours. Memory while the directory refuses,
        with what the file says as far as it can be read."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return state_file.open_file(self.path)
            except sqlite3.DatabaseError as exc:
                if isinstance(exc, sqlite3.OperationalError):
                    raise
                aside = self.path.with_name(f"{FILE}.broken-{int(time.time())}")
                log.error("%s is damaged (%s); moved to %s, the fault history starts anew", self.path, exc, aside)
                self._move_aside(aside)
                return state_file.open_file(self.path)
        except (OSError, sqlite3.Error) as exc:
            self._failed(exc)
        self._reopen_at = time.monotonic() + REOPEN_S
        db = state_file.open_memory()
        try:
            with state_file.reading(self.path) as source:
                state_file.copy(source, db)
        except sqlite3.Error as exc:
            self._seen = False
            log.error("%s: what it knows cannot be read either (%s); starting without it", self.path, exc)
        return db

    def _reopen(self) -> None:
        """The file again, with everything that memory has; a file that was never read keeps its notes, as the newest:
        their ids may be taken."""
        self._reopen_at = time.monotonic() + REOPEN_S
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = state_file.open_file(self.path)
        except (OSError, sqlite3.Error) as exc:
            self.problem = str(exc)
            return
        try:
            with db:
                unread = [] if self._seen else db.execute("SELECT note FROM outbox ORDER BY id").fetchall()
                for table in state_file.TABLES:
                    db.execute(f"DELETE FROM {table}")
                state_file.copy(self._db, db)
                again = enumerate((note for (note,) in unread), self._next_id)
                db.executemany("INSERT INTO outbox VALUES (?, ?)", again)
        except sqlite3.Error as exc:
            self.problem = str(exc)
            db.close()
            return
        self._next_id += len(unread)
        self._db.close()
        self._db, self._reopen_at, self._seen = db, None, True

    def _move_aside(self, aside: Path) -> None:
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(FILE + suffix).unlink()

    def _newest_id(self) -> int:
        (newest,) = self._db.execute("SELECT max(id) FROM outbox").fetchone()
        return int(newest or 0)

    def _failed(self, exc: Exception) -> None:
        if self.problem is None:
            log.error("%s: cannot be saved (%s); going on from memory, a restart forgets what is new", self.path, exc)
        self.problem = str(exc)

    def _worked(self) -> None:
        if self.problem is not None and self._reopen_at is None:
            log.warning("%s: state is saved again", self.path)
            self.problem = None
