"""The agent's state file after a power cut, on a bad disk: the agent starts, at worst without its history."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.settings import DetectSettings
from agent.main import last_run, remembered
from agent.service import Kept
from agent.store import FILE, Store
from tests.detect.bench import CATALOGUE, Bench, at, good
from tests.fuzz.damage import FUZZ, altered, damaged

PAGE = 4096


def lived() -> DetectorMemory:
    """What a detector knows that has seen some things."""
    bench = Bench()
    bench.poll(0, good(3, "80E18402", "80E18008", health=3), good(4))
    bench.event(1, 4, "80CB8009")
    bench.event(2, 3, "80E18402", "recover")
    bench.poll(5, good(3, "80E18402", health=3), good(4), silent=None)
    bench.detector.node_blind("kmsg", "cannot be read", at(6))
    return bench.detector.memory(at(7))


KEPT = msgspec.json.encode(Kept("boot-1", "session-1", lived()))


def starts_with(raw: bytes | None) -> None:
    """What the agent does at its start, and for a day."""
    memory = remembered(last_run(raw), "boot-1", at(10))
    detector = Detector(CATALOGUE, DetectSettings(), memory)
    bench = Bench()
    bench.detector = detector
    detector.forget_probes({"kmsg"}, at(10))
    for mono in (10, 70, 700, 100_000):
        bench.poll(mono, good(3, "80E18402", health=3), good(4))
        for phy, _ in bench.due(mono + 2):
            detector.reread(phy, (), at(mono + 2))
        assert detector.wake_at is None or detector.wake_at > 0
    bench.poll(100_005, good(3, "80E18402", health=3), good(4))
    assert bench.fault(100_006, "80E18402@3").confirmed
    msgspec.json.encode(detector.memory(at(100_006)))


@FUZZ
@given(raw=damaged(KEPT))
def test_a_memory_with_damaged_bytes_costs_the_history_at_most(raw: bytes) -> None:
    starts_with(raw)


@FUZZ
@given(raw=altered(msgspec.json.decode(KEPT)))
def test_a_memory_with_strange_values_costs_the_history_at_most(raw: bytes) -> None:
    starts_with(raw)


def test_a_track_of_a_chip_that_nobody_knows_is_left_out() -> None:
    document = msgspec.json.decode(KEPT)
    track = next(one for one in document["memory"]["tracks"] if one["code"] == "80E18008")
    track["subject"] = 16
    starts_with(msgspec.json.encode(document))


@pytest.mark.parametrize("raw", [b'{"x":' + b"[" * 100_000, b'{"session":"\xff"}', b'{"boot_id":"\xed\xa0\x80"}'])
def test_a_memory_that_is_no_text_is_none(raw: bytes) -> None:
    assert last_run(raw) is None


def test_every_cut_of_the_memory_is_no_memory() -> None:
    assert last_run(KEPT) is not None
    for end in range(len(KEPT)):
        assert last_run(KEPT[:end]) is None


@st.composite
def wounds(draw: st.DrawFn) -> list[tuple[str, int, bytes]]:
    """(kind, place in thousandths of the file, bytes)."""
    one = st.tuples(
        st.sampled_from(("cut", "zeros", "write", "garbage page")),
        st.integers(0, 1000),
        st.binary(min_size=1, max_size=64),
    )
    return draw(st.lists(one, min_size=1, max_size=3))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(hurt=wounds(), wal=st.booleans())
def test_a_damaged_database_is_used_or_replaced_and_works(
    tmp_path_factory: pytest.TempPathFactory, hurt: list[tuple[str, int, bytes]], wal: bool
) -> None:
    directory = tmp_path_factory.mktemp("state")
    try:
        store = Store(directory)
        for number in range(30):
            store.save(KEPT, [b"note %d " % number * 50])
        if wal:  # the process is killed: the log is still beside the file
            path = directory / (FILE + "-wal")
            saved = path.read_bytes(), (directory / FILE).read_bytes()
            store.close()
            path.write_bytes(saved[0])
            (directory / FILE).write_bytes(saved[1])
        else:
            store.close()
            path = directory / FILE
        damage(path, hurt)
        again = Store(directory)
        starts_with(again.memory())
        before = again.pending(1000)
        again.count()
        again.save(KEPT, [b"new"])
        assert [note for _, note in again.pending(1000)][-1] == b"new"
        again.forget(before[0][0] if before else 0)
        again.close()
    finally:
        shutil.rmtree(directory)


def damage(path: Path, hurt: list[tuple[str, int, bytes]]) -> None:
    raw = bytearray(path.read_bytes())
    for kind, place, content in hurt:
        start = len(raw) * place // 1000
        if kind == "cut":
            del raw[start:]
        elif kind == "zeros":
            raw[start : start + PAGE] = bytes(len(raw[start : start + PAGE]))
        elif kind == "write":
            raw[start : start + len(content)] = content
        else:
            page = start // PAGE * PAGE
            raw[page : page + PAGE] = (content * PAGE)[: len(raw[page : page + PAGE])]
    path.write_bytes(raw)


def test_a_half_written_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    store.save(KEPT, [b"note"] * 500)
    store.close()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[: 3 * PAGE])
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(path).execute("SELECT * FROM outbox").fetchall()
    again = Store(tmp_path)
    assert again.memory() is None
    assert "history starts anew" in caplog.text
    again.close()
