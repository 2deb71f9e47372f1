"""Another chip in the place of one that was known: it inherits nothing, and it is said."""

from __future__ import annotations

import pytest

from agent.detect.chips import CHANGE_TOLD_S
from agent.detect.readings import ChipIdentity, ChipReading
from tests.detect.bench import Bench, at

TRIPS = "80E18008"
"""Separates its chip for good at the second time in a day."""
CHANGED = "NW-CHIP-CHANGED@3"


def ill(who: ChipIdentity) -> ChipReading:
    return ChipReading(who, health=2, codes=(TRIPS,))


def well(who: ChipIdentity) -> ChipReading:
    return ChipReading(who, health=0, codes=())


def separated(who: ChipIdentity) -> Bench:
    """At 15 s."""
    bench = Bench()
    for mono, reading in ((0, ill(who)), (5, well(who)), (10, ill(who)), (15, well(who))):
        bench.poll(mono, reading)
    assert bench.faults(15) == {f"{TRIPS}@3": "ManuallySeparateNPU"}
    return bench


def chip(die: str | None = None, serial: str | None = None, pci: str | None = None) -> ChipIdentity:
    return ChipIdentity(phy=3, die=die, serial=serial, pci=pci)


@pytest.mark.parametrize(
    ("old", "new", "by"),
    [
        pytest.param(chip("A", pci="P"), chip("B", pci="P"), "die", id="another die"),
        pytest.param(chip("A", "S", "P"), chip("B", "S", "P"), "die", id="the die goes before the card's number"),
        pytest.param(chip(None, "S", "P"), chip(None, "T", "P"), "serial number", id="another card, dies unknown"),
        pytest.param(chip("A", "S", "P"), chip(None, "T", "P"), "serial number", id="the new one's die is unknown"),
        pytest.param(chip(None, None, "P"), chip(None, None, "Q"), "PCI address", id="nothing but another address"),
    ],
)
def test_another_chip_inherits_no_separation_and_is_told(old: ChipIdentity, new: ChipIdentity, by: str) -> None:
    bench = separated(old)
    bench.detector.drain_events()
    bench.poll(20, well(new))
    assert bench.faults(20) == {CHANGED: "NotHandleFault"}
    assert bench.fault(20, CHANGED).evidence["by"] == by
    events = [f"{event.kind} {event.id}" for event in bench.detector.drain_events()]
    assert events == [f"cleared {TRIPS}@3", f"raised {CHANGED}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(chip("A", pci="P"), chip("A", pci="Q"), id="the same die at another address"),
        pytest.param(chip(None, "S", "P"), chip(None, "S", "Q"), id="the same card at another address"),
        pytest.param(chip("A", "S", "P"), chip("A", "T", "P"), id="the same die under another number"),
        pytest.param(chip("A", "S", "P"), chip(None, None, "P"), id="a failing chip that no longer says who it is"),
        pytest.param(chip(), chip("A", "S", "P"), id="a chip that says for the first time who it is"),
    ],
)
def test_the_same_chip_stays_separated(old: ChipIdentity, new: ChipIdentity) -> None:
    bench = separated(old)
    bench.poll(20, well(new))
    assert bench.faults(20) == {f"{TRIPS}@3": "ManuallySeparateNPU"}


def test_the_new_chip_counts_from_its_own_first_time() -> None:
    bench = separated(chip("A"))
    bench.poll(20, ill(chip("B")))
    assert bench.faults(20)[f"{TRIPS}@3"] == "RestartNPU"


def test_the_change_is_told_for_an_hour_over_restarts_too() -> None:
    bench = separated(chip("A"))
    bench.poll(20, well(chip("B")))
    bench = Bench(bench.detector.memory(at(21)))
    bench.poll(20 + CHANGE_TOLD_S, well(chip("B")))
    assert CHANGED in bench.faults(20 + CHANGE_TOLD_S)
    bench.poll(25 + CHANGE_TOLD_S, well(chip("B")))
    assert bench.faults(25 + CHANGE_TOLD_S) == {}


def test_after_a_reboot_the_old_memory_meets_the_new_chip() -> None:
    memory = separated(chip("A")).detector.memory(at(15)).rebased(at(3), same_boot=False)
    bench = Bench(memory)
    bench.poll(5, well(chip("B")))
    assert bench.faults(5) == {CHANGED: "NotHandleFault"}
