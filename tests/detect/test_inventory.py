"""Chips that nobody has ever seen, where the configuration says how many there should be."""

from __future__ import annotations

import pytest

from agent.detect.readings import ChipReading, DriverReading
from tests.detect.bench import Bench, at, good, who

MISSING = {"NW-CHIPS-MISSING@node": "PreSeparateNPU"}


def poll(bench: Bench, mono: float, *chips: ChipReading, expected: int | None = 8, passed: int = 0) -> None:
    passed_through = frozenset(f"0000:F{number}:00.0" for number in range(passed))
    pci = frozenset(chip.chip.pci or "" for chip in chips)
    bench.detector.driver(DriverReading(chips, pci=pci, expected=expected, passed_through=passed_through), at(mono))


def test_a_card_absent_from_the_first_look_is_a_fault_of_the_node_at_the_third_poll() -> None:
    bench = Bench()
    seven = [good(phy) for phy in range(7)]
    poll(bench, 0, *seven)
    poll(bench, 5, *seven)
    assert bench.faults(5) == {}
    poll(bench, 10, *seven)
    assert bench.faults(10) == MISSING
    evidence = bench.fault(10, "NW-CHIPS-MISSING@node").evidence
    assert (evidence["expected"], evidence["seen"], evidence["on_the_bus"]) == ("8", "7", "7")
    poll(bench, 15, *seven, good(7))
    assert bench.faults(15) == {}


def test_a_host_whose_cards_are_all_absent_is_short_of_them_all() -> None:
    bench = Bench()
    for mono in (0, 5, 10):
        poll(bench, mono)
    assert bench.faults(10) == MISSING


def test_a_chip_that_was_seen_once_is_missed_by_its_own_fault_alone() -> None:
    bench = Bench()
    poll(bench, 0, *(good(phy) for phy in range(8)))
    for mono in (5, 10, 15):
        poll(bench, mono, *(good(phy) for phy in range(7)))
    assert bench.faults(15) == {"40F84E00@7": "RestartNPU"}


@pytest.mark.parametrize(
    ("seen", "expected", "passed"),
    [
        pytest.param(7, None, 0, id="nobody says how many"),
        pytest.param(8, 8, 0, id="as many"),
        pytest.param(9, 8, 0, id="more"),
        pytest.param(6, 8, 2, id="two are with virtual machines"),
    ],
)
def test_enough_chips_are_no_fault(seen: int, expected: int | None, passed: int) -> None:
    bench = Bench()
    for mono in (0, 5, 10, 15):
        poll(bench, mono, *(good(phy) for phy in range(seen)), expected=expected, passed=passed)
    assert bench.faults(15) == {}


def test_a_silent_driver_neither_raises_nor_clears_it() -> None:
    bench = Bench()
    for mono in (0, 5, 10):
        poll(bench, mono, good(0))
    for mono in (15, 20, 25):
        bench.detector.driver(DriverReading(silent="hangs", pci=frozenset({who(0).pci or ""}), expected=8), at(mono))
    assert set(bench.faults(25)) == {"NW-CHIPS-MISSING@node", "NW-MONITOR-BLIND@node"}
    fresh = Bench()
    for mono in (0, 5, 10, 15):
        fresh.detector.driver(DriverReading(silent="hangs", expected=8), at(mono))
    assert set(fresh.faults(15)) == {"NW-MONITOR-BLIND@node"}
