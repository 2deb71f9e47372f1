"""A state file that cannot be opened at the start: what it knows is not lost, and it is written once it can be."""

import contextlib
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import store as store_module
from agent.store import FILE, Store
from tests.agent.conftest import notes


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "REOPEN_S", 0.0)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else works on the file and lets nobody in: a backup, a shell that was left open."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 300 KiB large."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", place], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", place], check=True)


def kept_by(directory: Path) -> tuple[bytes | None, list[bytes]]:
    store = Store(directory)
    kept = store.memory(), notes(store)
    store.close()
    return kept


def write(directory: Path, memory: bytes, *new: bytes) -> None:
    store = Store(directory)
    store.save(memory, new)
    store.close()


def test_a_read_only_file_system_keeps_its_history_and_is_written_again_once_it_can_be(small_disk: Path) -> None:
    write(small_disk, b"history", b"a", b"b")
    remount(small_disk, "ro")
    store = Store(small_disk)
    assert store.problem is not None
    assert store.memory() == b"history"
    store.save(b"newer", [b"c"])
    assert notes(store) == [b"a", b"b", b"c"]
    store.forget(store.pending(1)[0][0])
    remount(small_disk, "rw")
    store.save(b"newest", [b"d"])
    assert store.problem is None
    store.close()
    assert kept_by(small_disk) == (b"newest", [b"b", b"c", b"d"])


def test_a_full_file_system_keeps_its_history_and_is_written_again_once_it_has_room(small_disk: Path) -> None:
    write(small_disk, b"history", b"a")
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))
    store = Store(small_disk)
    assert store.problem is not None
    assert store.memory() == b"history"
    filler.unlink()
    store.save(b"newer", [b"b"])
    assert store.problem is None
    store.close()
    assert kept_by(small_disk) == (b"newer", [b"a", b"b"])


def test_a_locked_file_is_taken_over_when_it_is_let_go_and_no_note_in_it_is_lost(tmp_path: Path) -> None:
    write(tmp_path, b"history", b"a", b"b")
    with locked(tmp_path / FILE):
        (tmp_path / f"{FILE}-wal").write_bytes(b"in the middle of something")
        store = Store(tmp_path)
        store.save(b"newer", [b"c"])
        assert store.problem is not None
        assert notes(store) == [b"c"], "what cannot be read at all waits"
        (tmp_path / f"{FILE}-wal").unlink()
    store.save(b"newest", [b"d"])
    assert store.problem is None
    assert notes(store) == [b"c", b"d", b"a", b"b"]
    store.forget(store.pending(2)[1][0])
    store.close()
    assert kept_by(tmp_path) == (b"newest", [b"a", b"b"])


def test_a_flood_of_commands_that_never_expire_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_BEGUN", 5)
    store = Store(tmp_path)
    assert all(store.begin(f"c{number}", 1e11, 0.0) for number in range(20))
    assert [store.begin(f"c{number}", 1e11, 0.0) for number in range(15, 20)] == [False] * 5
    (rows,) = store._db.execute("SELECT count(*) FROM commands").fetchone()
    assert rows == 5
    store.close()


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE memory (one INTEGER PRIMARY KEY, value TEXT)",
        "CREATE VIEW memory AS SELECT 1 AS one, x'00' AS value",
        "CREATE TABLE outbox (id TEXT PRIMARY KEY, note BLOB)",
        "CREATE TABLE commands (id TEXT, until REAL)",
        "CREATE TABLE memory (one INTEGER PRIMARY KEY, value BLOB); INSERT INTO memory VALUES (1, NULL)",
        "CREATE TABLE memory (one INTEGER PRIMARY KEY, value BLOB); INSERT INTO memory VALUES (1, 'text')",
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, note BLOB); INSERT INTO outbox VALUES (5, 'text')",
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, note BLOB); INSERT INTO outbox VALUES ((1<<62) + 1, x'00')",
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, note BLOB); INSERT INTO outbox VALUES (-5, x'00')",
    ],
)
def test_tables_with_our_names_and_other_content_are_moved_aside(tmp_path: Path, schema: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.executescript(schema)
    assert kept_by(tmp_path) == (None, [])
    write(tmp_path, b"memory", b"a")
    assert kept_by(tmp_path) == (b"memory", [b"a"])
    assert len(list(tmp_path.glob(f"{FILE}.broken-*"))) == 1
