"""The SQLite file under agent.store: its tables, how it is opened, and what can be read of one that takes no writes."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

BUSY_S = 2.0
MAX_ID = 1 << 62
"""No agent lives long enough for more notes; a file that names one is not ours."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS memory (one INTEGER PRIMARY KEY CHECK (one = 1), value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, note BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS commands (id TEXT PRIMARY KEY, until REAL NOT NULL);
"""
TABLES = {
    "memory": [("one", "INTEGER", 1), ("value", "BLOB", 0)],
    "outbox": [("id", "INTEGER", 1), ("note", "BLOB", 0)],
    "commands": [("id", "TEXT", 1), ("until", "REAL", 0)],
}
"""Of each table the columns: name, type, and whether it is the primary key."""


def open_file(path: Path) -> sqlite3.Connection:
    """To read and write; made where there is none. Raises sqlite3.OperationalError when that is refused now, another
    sqlite3.DatabaseError when it is damaged or somebody else's."""
    return _checked(sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False))


def open_memory() -> sqlite3.Connection:
    """The same tables for as long as the process lives."""
    return _checked(sqlite3.connect(":memory:", check_same_thread=False))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A file that cannot be written to, for reading. Raises sqlite3.DatabaseError."""
    # Nobody writes to a file system without room or mounted read-only, and SQLite would want to make files beside this
    # one. A log that stands beside it belongs to it, and is read with it; an empty one is left of a try without room.
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=BUSY_S)) as db:
        _check(db)
        yield db


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """All rows, into tables that are empty. Raises sqlite3.Error, and then nothing is copied."""
    with target:
        for table, columns in TABLES.items():
            room = ", ".join("?" for _ in columns)
            target.executemany(f"INSERT INTO {table} VALUES ({room})", source.execute(f"SELECT * FROM {table}"))


def _checked(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.executescript(SCHEMA)
        _check(db)
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection) -> None:
    """Damage, and tables of somebody else. SQLite holds a column to no type, so the values are looked at too."""
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    for table, columns in TABLES.items():
        found = [(name, kind, key) for _, name, kind, _, _, key in db.execute(f"PRAGMA table_info({table})")]
        if found != columns:
            raise sqlite3.DatabaseError(f"table {table} has other columns: {found}")
    for wrong in (
        "SELECT name FROM sqlite_master WHERE name IN ('memory', 'outbox', 'commands') AND type != 'table'",
        "SELECT one FROM memory WHERE typeof(value) != 'blob'",
        f"SELECT id FROM outbox WHERE typeof(note) != 'blob' OR id NOT BETWEEN 0 AND {MAX_ID}",
    ):
        if (row := db.execute(wrong).fetchone()) is not None:
            raise sqlite3.DatabaseError(f"{row[0]!r} is not what the agent writes")
