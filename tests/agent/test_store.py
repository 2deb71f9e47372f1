"""State on disk: what survives a kill, a damaged file, a full disk."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.disk import Disk
from agent.metrics import Metrics
from agent.store import FILE, Store
from tests.agent.conftest import notes
from tests.waiting import eventually

WRITER = """
import sys
from pathlib import Path
from agent.store import Store
store = Store(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    store.save(b"memory %d" % number, [b"note %d" % number])
    print(number, flush=True)
"""


def test_memory_and_notes_survive_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.memory() is None
    store.save(b"one", [b"a", b"b"])
    store.save(b"two", [])
    store.close()
    again = Store(tmp_path)
    assert again.memory() == b"two"
    assert notes(again) == [b"a", b"b"]
    again.save(b"three", [b"c"])
    assert notes(again) == [b"a", b"b", b"c"], "ids go on, so order does"
    again.close()


def test_what_was_sent_is_forgotten_and_the_rest_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(b"m", [b"a", b"b", b"c"])
    first, second = store.pending(2)
    assert (first[1], second[1]) == (b"a", b"b")
    store.forget(second[0])
    assert notes(store) == [b"c"]
    assert store.count() == 1
    store.close()


def test_a_killed_writer_loses_nothing_it_had_saved_and_tears_no_transaction(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": root},
        )
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(50)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout.read().split()]
        writer.stdout.close()
        writer.wait()
        store = Store(tmp_path)
        kept = notes(store)
        store.forget(10**9)
        memory = store.memory()
        store.close()
        assert memory is not None
        assert len(kept) >= len(said)
        assert memory.replace(b"memory", b"note") == kept[-1], "memory and notes are of one moment"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: b"not a database at all" * 100, id="another file"),
        pytest.param(lambda raw: raw[: len(raw) // 2], id="half of it"),
        pytest.param(lambda raw: raw[:4096] + os.urandom(len(raw) - 4096), id="garbage behind the header"),
    ],
)
def test_a_damaged_file_is_moved_aside_and_the_agent_starts_anew(
    tmp_path: Path, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(damage)
    store = Store(tmp_path)
    store.save(b"x" * 20000, [b"note"] * 500)
    store.close()
    path = tmp_path / FILE
    path.write_bytes(damage(path.read_bytes()))
    again = Store(tmp_path)
    assert again.memory() is None
    assert again.problem is None
    again.save(b"new", [b"n"])
    assert notes(again) == [b"n"]
    again.close()
    (aside,) = tmp_path.glob(f"{FILE}.broken-*")
    assert str(aside) in caplog.text


def test_a_directory_that_cannot_be_used_leaves_memory_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    store = Store(blocked / "state")
    store.save(b"m", [b"a"])
    assert store.problem is not None
    assert notes(store) == [b"a"]
    assert "going on from memory" in caplog.text
    store.close()


def test_a_full_disk_keeps_notes_in_memory_and_saves_them_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    store.save(b"small", [b"before"])
    limit(store, pages=int(scalar(store, "page_count")))
    for number in range(3):
        store.save(b"m" * 100_000, [b"%d" % number])
    assert store.problem is not None
    assert notes(store) == [b"before", b"0", b"1", b"2"]
    assert store.count() == 4
    assert len([record for record in caplog.records if "cannot be saved" in record.message]) == 1, "said once"
    store.forget(store.pending(2)[1][0])
    assert notes(store) == [b"1", b"2"]
    limit(store, pages=1 << 20)
    store.save(b"fine", [b"3"])
    assert store.problem is None
    store.close()
    again = Store(tmp_path)
    assert (again.memory(), notes(again)) == (b"fine", [b"1", b"2", b"3"])
    again.close()


def limit(store: Store, *, pages: int) -> None:
    """SQLite's own way of a full disk."""
    store._db.execute(f"PRAGMA max_page_count={pages}")


def scalar(store: Store, pragma: str) -> int:
    (value,) = store._db.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)


def test_an_outage_without_end_keeps_the_newest_notes(tmp_path: Path) -> None:
    store = Store(tmp_path, max_notes=10)
    for number in range(25):
        store.save(b"m", [b"%d" % number])
    assert notes(store) == [b"%d" % number for number in range(15, 25)]
    store.close()


@settings(max_examples=30)
@given(steps=st.lists(st.one_of(st.integers(0, 4), st.just("send"), st.just("restart")), max_size=25))
def test_notes_are_sent_once_and_in_order_whatever_happens_between(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]
) -> None:
    directory = tmp_path_factory.mktemp("store")
    store, made, sent = Store(directory), 0, []
    for step in steps:
        if step == "send":
            batch = store.pending(3)
            sent += [int(note) for _, note in batch]
            if batch:
                store.forget(batch[-1][0])
        elif step == "restart":
            store.close()
            store = Store(directory)
        else:
            store.save(b"m", [b"%d" % number for number in range(made, made + int(step))])
            made += int(step)
    sent += [int(note) for note in notes(store)]
    store.close()
    shutil.rmtree(directory)
    assert sent == list(range(made))


async def test_a_disk_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process holds the write lock: SQLite waits for it, longer than we do."""
    monkeypatch.setattr("agent.disk.PATIENCE_S", 0.1)
    disk = Disk(Store(tmp_path), Metrics())
    blocker = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    await disk.save(b"m", [b"late"])
    assert "did not answer" in caplog.text
    await disk.save(b"m2", [b"later"])
    blocker.execute("ROLLBACK")
    blocker.close()
    monkeypatch.setattr("agent.disk.PATIENCE_S", 10)
    with sqlite3.connect(tmp_path / FILE) as reader:  # the second is saved without another call
        count = "SELECT count(*) FROM outbox"
        await eventually("both notes on the disk", lambda: reader.execute(count).fetchone() == (2,))
    reader.close()
    assert [note for _, note in await disk.pending(10)] == [b"late", b"later"]
    await disk.close()
