"""A state file that refuses, lies or hangs: nothing is sent twice for ever, nothing stops the watch or its end."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.config import Redis as RedisSettings
from agent.disk import Disk
from agent.main import last_run, remembered
from agent.metrics import Metrics
from agent.publisher import Publisher
from agent.store import FILE, Store
from shared.model import Instant
from shared.names import EVENTS_STREAM
from shared.redis_client import connect
from tests.agent.conftest import notes
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

ROOT = str(Path(__file__).parents[2])
NOW = Instant(mono=100.0, wall=1e9)


def refuse_writes(store: Store, refuse: bool = True) -> None:
    """What a disk that is full or mounted read-only does: reads work, every write is an error."""
    store._db.execute(f"PRAGMA query_only={int(refuse)}")


def test_what_was_sent_is_not_pending_again_although_the_disk_refuses_to_forget_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(b"m", [b"a", b"b", b"c"])
    refuse_writes(store)
    store.forget(store.pending(2)[1][0])
    assert store.problem is not None
    assert notes(store) == [b"c"]
    assert store.count() == 1
    store.save(b"m", [b"d"])
    assert notes(store) == [b"c", b"d"]
    refuse_writes(store, False)
    store.save(b"m", [])
    store.close()
    again = Store(tmp_path)
    assert notes(again) == [b"c", b"d"], "caught up on as soon as the disk takes writes"
    again.close()


async def test_a_disk_that_refuses_does_not_flood_the_stream(redis_server: RedisServer, tmp_path: Path) -> None:
    store = Store(tmp_path)
    client = connect(RedisSettings(url=redis_server.url), timeout_s=2.0)
    disk = Disk(store, Metrics())
    publisher = Publisher(client, node="node-a", outbox=disk, metrics=Metrics(), timeout_s=2.0)
    try:
        await disk.save(b"m", [b"a", b"b"])
        refuse_writes(store)
        async with asyncio.timeout(5):
            assert await publisher.send()
        entries: Any = await client.xrange(EVENTS_STREAM)
        assert [fields[b"note"] for _, fields in entries] == [b"a", b"b"]
    finally:
        await publisher.close()
        await disk.close()


async def test_the_number_of_waiting_notes_is_known_while_redis_is_away(tmp_path: Path) -> None:
    metrics = Metrics()
    disk = Disk(Store(tmp_path), metrics)
    await disk.save(b"m", [b"a", b"b"])
    assert metrics.registry.get_sample_value("npuwarden_agent_outbox_notes") == 2
    await disk.close()


@pytest.mark.parametrize(
    "schema",
    ["CREATE TABLE outbox (other TEXT)", "CREATE TABLE memory (other TEXT)"],
)
def test_a_database_of_someone_else_is_moved_aside(tmp_path: Path, schema: str) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(schema)
    db.commit()
    db.close()
    store = Store(tmp_path)
    store.save(b"m", [b"a"])
    assert (store.memory(), notes(store), store.problem) == (b"m", [b"a"], None)
    store.close()
    assert list(tmp_path.glob(f"{FILE}.broken-*"))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xfe",
        b'{"boot_id": "\xff", "session": "s"}',
        b'{"boot_id":"b","session":"s","memory":{"saved":{"mono":1,"wall":1},"severities":{"\xff":1}}}',
        b"[" * 100_000,
        b"{}",
        b"",
    ],
)
def test_saved_memory_that_is_garbage_costs_the_history_and_not_the_start(raw: bytes) -> None:
    assert last_run(raw) is None


def test_an_unknown_boot_is_not_the_same_boot() -> None:
    """Without a boot id nobody knows whose monotonic clock the saved times are of."""
    memory = {"saved": {"mono": 1e6, "wall": 1e9 - 60}, "chips": [{"identity": {"phy": 0}, "seen_at": 1e6}]}
    raw = msgspec.json.encode({"boot_id": "", "session": "s", "memory": memory})
    found = remembered(last_run(raw), "", NOW)
    assert found is not None
    assert found.chips[0].seen_at == pytest.approx(NOW.mono - 60)


HANGS = """
import asyncio, sys, threading
from pathlib import Path
from agent.disk import Disk
from agent.metrics import Metrics
from agent.store import Store

class OnADeadMount(Store):
    def save(self, memory, notes):
        threading.Event().wait()

async def main():
    disk = Disk(OnADeadMount(Path(sys.argv[1])), Metrics())
    await disk.save(b"m", [b"a"])
    await disk.close()
    print("closed", flush=True)

asyncio.run(main())
"""


def test_a_disk_that_hangs_for_ever_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.stdout == "closed\n"
    assert time.monotonic() - began < 10


WRITER = """
import sys
from pathlib import Path
from agent.store import Store
store = Store(Path(sys.argv[1]))
number = store.count()
while True:
    store.save(b"memory %d" % number, [b"note %d" % number])
    print(number, flush=True)
    number += 1
    if number % 7 == 0:
        store.pending(3)
"""


def test_no_kill_at_any_moment_loses_a_saved_note(tmp_path: Path) -> None:
    said: list[int] = []
    for turn in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": ROOT},
        )
        assert writer.stdout is not None
        said += [int(writer.stdout.readline()) for _ in range(1 + 3 * turn % 11)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout.read().split()]
        writer.stdout.close()
        writer.wait()
    store = Store(tmp_path)
    kept = notes(store)
    assert store.problem is None
    assert kept == [b"note %d" % number for number in range(len(kept))]
    assert len(kept) >= len(set(said))
    store.close()
