"""Chips that the driver does not list although they are there: beside a lost one, or with a virtual machine."""

import pytest

from agent.detect.readings import ChipIdentity, ChipReading, DriverReading
from shared.names import CODE_CARD_LOST
from tests.detect.bench import Bench, at


def die(phy: int, *, card: int | None = None) -> ChipReading:
    """Two dies a card, as on an A3."""
    identity = ChipIdentity(phy, card=phy // 2 if card is None else card, chip=phy % 2, pci=address(phy))
    return ChipReading(identity, health=0, codes=())


def address(phy: int) -> str:
    return f"0000:{phy + 1:02X}:00.0"


def bus(*phys: int) -> frozenset[str]:
    return frozenset(address(phy) for phy in phys)


def host(chips: tuple[int, ...] = (0, 1, 2, 3)) -> Bench:
    bench = Bench()
    reading = DriverReading(chips=tuple(die(phy) for phy in chips), pci=bus(*chips))
    bench.detector.driver(reading, at(0))
    return bench


def polls(bench: Bench, reading: DriverReading, *times: float) -> None:
    for mono in times:
        bench.detector.driver(reading, at(mono))


def test_of_two_dies_of_a_card_only_the_one_that_is_off_the_bus_is_lost() -> None:
    bench = host()
    polls(bench, DriverReading(chips=(die(2), die(3)), pci=bus(0, 2, 3), gaps=1), 5, 10, 15, 20)
    assert set(bench.faults(20)) == {f"{CODE_CARD_LOST}@1"}
    (unknown,) = bench.view(20).unknown
    assert (unknown.chip, unknown.probe) == (0, "driver")
    assert "lost chip 1" in unknown.why
    polls(bench, DriverReading(chips=tuple(map(die, range(4))), pci=bus(0, 1, 2, 3)), 25)
    assert (bench.faults(25), bench.view(25).unknown) == ({}, ())


def test_a_healthy_card_that_a_gap_in_the_logic_ids_costs_is_not_lost() -> None:
    bench = host()
    polls(bench, DriverReading(chips=(die(0),), pci=bus(0, 2, 3)), 5, 10, 15, 20)
    assert set(bench.faults(20)) == {f"{CODE_CARD_LOST}@1"}
    assert {one.chip for one in bench.view(20).unknown} == {2, 3}


def test_a_card_that_is_on_the_bus_and_not_listed_is_lost_when_no_other_explains_it() -> None:
    bench = host()
    polls(bench, DriverReading(chips=(die(0), die(1)), pci=bus(0, 1, 2, 3)), 5, 10, 15)
    assert set(bench.faults(15)) == {f"{CODE_CARD_LOST}@2", f"{CODE_CARD_LOST}@3"}


@pytest.mark.parametrize("silent", [None, "dcmi_init answered -8005 (inner error)"])
def test_chips_of_a_virtual_machine_are_neither_lost_nor_unknown(silent: str | None) -> None:
    bench = host((0, 1))
    chips = () if silent else (die(1),)
    here = bus() if silent else bus(1)
    polls(bench, DriverReading(chips=chips, pci=here, passed_through=bus(0, 1) - here, silent=silent), 5, 10, 15, 20)
    assert bench.faults(20) == {}
    assert bench.view(20).unknown == ()
    assert [chip.phy for chip in bench.view(20).chips] == ([] if silent else [1])


def test_a_fault_ends_when_its_chip_is_handed_over_and_the_chip_is_new_when_it_comes_back() -> None:
    bench = host((0, 1))
    polls(bench, DriverReading(chips=(die(1),), pci=bus(1)), 5, 10, 15)
    assert set(bench.faults(15)) == {f"{CODE_CARD_LOST}@0"}
    polls(bench, DriverReading(chips=(die(1),), pci=bus(1), passed_through=bus(0)), 20)
    assert bench.faults(20) == {}
    polls(bench, DriverReading(chips=(die(0), die(1)), pci=bus(0, 1)), 25)
    assert [chip.phy for chip in bench.view(25).chips] == [0, 1]


def test_a_silent_driver_is_blind_while_one_npu_is_still_with_the_host() -> None:
    bench = host((0, 1))
    polls(bench, DriverReading(pci=bus(1), passed_through=bus(0), silent="no answer"), 5, 10)
    assert set(bench.faults(10)) == {"NW-MONITOR-BLIND@node"}
