"""Critical and nothing listed: the chip's heartbeat is lost, and such an answer ends no fault, whoever asked for it."""

from __future__ import annotations

from tests.detect.bench import Bench, at, good

UNCORRECTABLE = "80E18402"


def test_a_read_after_a_recover_event_that_finds_the_heartbeat_lost_ends_no_fault() -> None:
    bench = Bench()
    bench.poll(0, good(0, UNCORRECTABLE, health=3))
    bench.event(1, 0, UNCORRECTABLE, "recover")
    assert bench.due(2) == [(0, "recover")]
    bench.detector.reread(0, (), at(2), health=3)
    assert bench.fault(2, f"{UNCORRECTABLE}@0").confirmed
    assert bench.due(10) == []  # the next poll decides
    bench.poll(10, good(0))
    assert bench.faults(10) == {}


def test_such_a_read_does_not_find_a_lost_card_again() -> None:
    bench = Bench()
    bench.poll(0, good(0))
    for mono in (5, 10, 15, 20):
        bench.poll(mono, good(0, health=3))
    lost = bench.faults(20)
    assert lost
    bench.event(21, 0, UNCORRECTABLE, "occur")
    bench.detector.reread(0, (), at(21), health=3)
    assert lost.items() <= bench.faults(21).items()
    assert [chip.health for chip in bench.view(21).chips] != ["ok"]
