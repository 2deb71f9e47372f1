"""What the detector does with single readings: confirmation, reads it asks for, storms, blindness, lost cards."""

from __future__ import annotations

import pytest

from agent.detect.book import MAX_CODES
from agent.detect.chips import EVENTS_PER_MINUTE
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading, LinkReading, NodeFinding
from tests.detect.bench import Bench, at, failing, good, who

SEPARATE = "80E18402"
RESTART = "80CB8009"
RECORDED = "80E21007"


# Confirmation.


def test_an_event_that_restarts_pods_is_unconfirmed_until_the_read_it_asks_for_shows_it() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, SEPARATE)
    assert not bench.fault(1, f"{SEPARATE}@3").confirmed
    assert bench.due(1) == [(3, "confirm")]
    bench.detector.reread(3, (SEPARATE,), at(1.1))
    assert bench.fault(1.1, f"{SEPARATE}@3").confirmed
    assert bench.due(1.1) == []


def test_a_read_that_does_not_show_it_yet_leaves_it_unconfirmed_until_the_poll() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, SEPARATE)
    bench.detector.reread(3, (), at(1.1))
    assert bench.due(1.1) == []
    assert not bench.fault(1.2, f"{SEPARATE}@3").confirmed
    bench.poll(5, good(3, SEPARATE, health=3))
    assert bench.fault(5, f"{SEPARATE}@3").confirmed


@pytest.mark.parametrize("code", [RECORDED, "80E20207"], ids=["NotHandleFault", "SubHealthFault"])
def test_an_event_that_restarts_nothing_asks_for_no_read(code: str) -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, code)
    assert bench.due(1) == []
    assert f"{code}@3" in bench.faults(1)


def test_an_unconfirmed_event_is_gone_at_the_second_poll_and_no_hit() -> None:
    bench = Bench()
    for start in (0, 100, 200):
        bench.poll(start, good(3))
        bench.event(start + 1, 3, "80E18008")
        bench.poll(start + 5, good(3))
        assert bench.faults(start + 6) == {"80E18008@3": "RestartNPU"}
        bench.poll(start + 10, good(3))
        assert bench.faults(start + 11) == {}


def test_an_unreadable_chip_counts_as_no_poll() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, SEPARATE)
    for mono in (5, 10, 15, 20):
        bench.poll(mono, failing(3, -8005))
    assert f"{SEPARATE}@3" in bench.faults(21)


# Reads.


def test_recover_events_of_one_chip_are_one_read_when_their_hold_is_over() -> None:
    bench = Bench()
    bench.poll(0, good(3, SEPARATE, RESTART, health=3), good(4))
    bench.event(10, 3, SEPARATE, "recover")
    bench.event(10, 3, RESTART, "recover")
    assert bench.due(10.9) == []
    assert bench.detector.wake_at == 11
    assert bench.due(11) == [(3, "recover")]
    bench.detector.reread(3, (RESTART,), at(11))
    assert bench.faults(11) == {f"{RESTART}@3": "RestartRequest"}
    assert bench.due(11) == []


def test_a_recover_event_of_nothing_known_asks_for_nothing() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(10, 3, SEPARATE, "recover")
    assert bench.due(20) == []


def test_a_poll_that_no_longer_lists_the_code_needs_no_read_of_its_own() -> None:
    bench = Bench()
    bench.poll(0, good(3, SEPARATE, health=3))
    bench.event(4.5, 3, SEPARATE, "recover")
    bench.poll(5, good(3))
    assert bench.faults(5) == {}
    assert bench.due(5.5) == []


def test_a_gap_in_the_serial_numbers_reads_the_chip_once() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    for serial in (7, 8, 12, 15):
        bench.event(1, 3, RECORDED, serial=serial)
    assert bench.due(1) == []
    assert bench.due(2) == [(3, "resync")]
    bench.detector.reread(3, (SEPARATE,), at(2), health=3)
    assert bench.faults(2)[f"{SEPARATE}@3"] == "SeparateNPU"
    assert bench.due(3) == []


def test_a_storm_costs_one_read_and_what_that_shows_is_right() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    for number in range(EVENTS_PER_MINUTE + 50):
        bench.event(1 + number / 1000, 3, f"80F{number:05X}", "once", severity=0)
    assert len(bench.faults(3)) == EVENTS_PER_MINUTE
    assert bench.due(3) == [(3, "resync")]
    bench.detector.reread(3, (SEPARATE,), at(3), health=3)
    bench.poll(5, good(3, SEPARATE, health=3))
    bench.poll(10, good(3, SEPARATE, health=3))
    assert bench.faults(10) == {f"{SEPARATE}@3": "SeparateNPU"}


def test_an_event_for_a_chip_the_driver_never_lists_passes() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 77, SEPARATE)
    bench.poll(5, good(3))
    bench.poll(10, good(3))
    bench.poll(15, good(3))
    view = bench.view(20)
    assert view.faults == ()
    assert [chip.phy for chip in view.chips] == [3]
    assert view.unknown == ()


# What cannot be seen.


@pytest.mark.parametrize(
    "reading",
    [
        failing(3, -8005),
        failing(3, -8255),
        failing(3, -8002),
        ChipReading(who(3), health=0),
        ChipReading(who(3), hung=True),
    ],
    ids=["inner error", "not supported", "not permitted", "no list", "hung"],
)
def test_a_chip_that_cannot_be_read_keeps_its_faults_and_is_unknown(reading: ChipReading) -> None:
    bench = Bench()
    bench.poll(0, good(2), good(3, RESTART, health=2))
    for mono in range(5, 600, 5):
        bench.poll(mono, good(2), reading)
    view = bench.view(600)
    assert [fault.id for fault in view.faults if fault.chip == 3] == [f"{RESTART}@3"]
    assert [(unknown.chip, unknown.since) for unknown in view.unknown] == [(3, at(5).wall)]
    assert [chip.health for chip in view.chips] == ["ok", "fault"]


def test_a_chip_without_faults_that_cannot_be_read_is_unknown_and_not_ok() -> None:
    bench = Bench()
    bench.poll(0, failing(3, -8006))
    view = bench.view(1)
    assert [chip.health for chip in view.chips] == ["unknown"]
    assert view.healthy[3]


def test_a_silent_driver_is_monitor_blind_at_the_second_poll_until_it_answers() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.poll(5, silent="the child process did not answer for 10 s")
    assert bench.faults(6) == {}
    bench.poll(10, silent="the child process did not answer for 10 s")
    view = bench.view(11)
    assert [(fault.id, fault.confirmed) for fault in view.faults] == [("NW-MONITOR-BLIND@node", True)]
    assert view.faults[0].evidence["why"] == "the child process did not answer for 10 s"
    assert [unknown.chip for unknown in view.unknown] == [3]
    bench.poll(15, good(3))
    assert bench.faults(16) == {}


def test_an_empty_card_list_is_a_broken_driver_and_no_lost_chips_while_the_bus_has_them() -> None:
    bench = Bench()
    bench.poll(0, good(2), good(3))
    on_bus = frozenset({who(2).pci or "", who(3).pci or ""})
    for mono in (5, 10, 15, 20):
        bench.detector.driver(DriverReading(pci=on_bus), at(mono))
    assert bench.faults(21) == {"NW-MONITOR-BLIND@node": "PreSeparateNPU"}


def test_a_driver_that_lists_no_chip_from_the_start_is_blind_when_the_bus_has_some() -> None:
    bench = Bench()
    for mono in (0, 5):
        bench.detector.driver(DriverReading(pci=frozenset({"0000:C1:00.0"})), at(mono))
    assert bench.faults(6) == {"NW-MONITOR-BLIND@node": "PreSeparateNPU"}


def test_a_host_without_npus_is_not_blind() -> None:
    bench = Bench()
    for mono in (0, 5):
        bench.detector.driver(DriverReading(pci=frozenset()), at(mono))
    assert bench.faults(6) == {}


def test_all_chips_gone_from_list_and_bus_are_lost_chips() -> None:
    bench = Bench()
    bench.poll(0, good(2), good(3))
    for mono in (5, 10, 15):
        bench.detector.driver(DriverReading(pci=frozenset()), at(mono))
    assert bench.faults(16) == {"40F84E00@2": "RestartNPU", "40F84E00@3": "RestartNPU"}


def test_a_chip_gone_mad_while_nobody_can_read_it_fills_no_memory() -> None:
    bench = Bench()
    for number in range(3000):
        bench.event(number * 0.1, 3, f"80F{number:05X}", severity=0)
    assert len(bench.faults(400)) == MAX_CODES


def test_a_chip_missing_in_an_old_enumeration_is_unknown_and_in_fresh_ones_lost() -> None:
    bench = Bench()
    bench.poll(0, good(2), good(3))
    for mono in (5, 10, 15, 20):
        bench.detector.driver(DriverReading(chips=(good(2),), fresh=False), at(mono))
    assert [unknown.chip for unknown in bench.view(21).unknown] == [3]
    assert bench.faults(21) == {}
    for mono in (25, 30, 35):
        bench.poll(mono, good(2))
    assert bench.faults(36) == {"40F84E00@3": "RestartNPU"}


def test_an_inner_error_of_a_chip_that_is_off_the_bus_is_a_lost_chip() -> None:
    bench = Bench()
    bench.poll(0, good(2), good(3))
    for mono in (5, 10, 15):
        reading = DriverReading(chips=(good(2), failing(3, -8005)), pci=frozenset({who(2).pci or ""}))
        bench.detector.driver(reading, at(mono))
    assert bench.faults(16) == {"40F84E00@3": "RestartNPU"}


def test_a_failing_chip_is_still_known_by_what_was_read_before() -> None:
    bench = Bench()
    bench.poll(0, ChipReading(who(3, die="A"), health=0, codes=()))
    bench.poll(5, ChipReading(ChipIdentity(phy=3), error=-8005))
    chip = bench.view(5).chips[0]
    assert (chip.die, chip.pci, chip.card) == ("A", who(3).pci, 3)


def test_the_heartbeat_events_code_and_the_lost_card_are_one_fault() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, "40F84E00")
    for mono in (5, 10, 15):
        bench.poll(mono, good(3, health=3))
    assert [event.id for event in bench.detector.drain_events()] == ["40F84E00@3"]
    assert bench.fault(16, "40F84E00@3").confirmed


def test_a_host_probe_that_stays_blind_is_told_and_its_findings_stay() -> None:
    bench = Bench()
    bench.detector.node([NodeFinding("2C000031", True)], at(0))
    bench.detector.node_blind("kmsg", "/dev/kmsg: permission denied", at(10))
    assert [(u.chip, u.probe) for u in bench.view(11).unknown] == [("node", "kmsg")]
    assert bench.faults(310) == {"2C000031@node": "SeparateNPU"}
    assert bench.detector.wake_at == pytest.approx(310.001)
    assert bench.faults(311) == {"2C000031@node": "SeparateNPU", "NW-PROBE@node": "NotHandleFault"}
    bench.detector.node_blind("kmsg", None, at(320))
    assert bench.faults(321) == {"2C000031@node": "SeparateNPU"}


# Links, releases, evidence.


def test_a_link_that_is_down_is_a_confirmed_fault_of_the_link() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.detector.links([LinkReading(3, up=False)], at(1))
    fault = bench.fault(1, "81078603@3")
    assert (fault.part, fault.confirmed, fault.level.value) == ("link", True, "NotHandleFault")


def test_only_a_manual_separation_can_be_released() -> None:
    bench = Bench()
    bench.poll(0, good(3, SEPARATE, health=3))
    assert not bench.detector.operator_release(3, SEPARATE, at(1))
    assert not bench.detector.operator_release(3, "80E18008", at(1))
    assert not bench.detector.operator_release(9, SEPARATE, at(1))
    assert bench.faults(1) == {f"{SEPARATE}@3": "SeparateNPU"}


def test_a_fault_that_a_rule_holds_says_so() -> None:
    bench = Bench()
    for mono in (0, 10):
        bench.poll(mono, good(3, "80E18008", health=2))
        bench.poll(mono + 5, good(3))
    fault = bench.fault(20, "80E18008@3")
    assert fault.evidence["rule"] == "frequency"
    assert fault.since == at(10).wall


def test_configuration_complaints_name_the_file_and_a_removed_file_gives_the_built_in_back() -> None:
    bench = Bench()
    bench.poll(0, good(3, SEPARATE, health=3))
    files = {"faultCode.json": '{"NotHandleFaultCodes": ["80E18402", 5]}', "other.json": "{}"}
    complaints = bench.detector.config(files, at(1))
    assert [complaint.file for complaint in complaints] == ["faultCode.json", "other.json"]
    assert bench.faults(1) == {f"{SEPARATE}@3": "NotHandleFault"}
    assert bench.detector.config({"faultCode.json": None}, at(2)) == []
    assert bench.faults(2) == {f"{SEPARATE}@3": "SeparateNPU"}


def test_nothing_to_wake_for_when_nothing_happens() -> None:
    bench = Bench()
    bench.poll(0, good(3, SEPARATE, health=3))
    assert bench.detector.wake_at is None


def test_a_timer_of_a_chip_that_cannot_be_read_wakes_nobody() -> None:
    bench = Bench()
    bench.poll(0, good(3, "81078603", health=2))
    assert bench.detector.wake_at == pytest.approx(20.001)
    bench.poll(5, failing(3, -8005))
    assert bench.detector.wake_at is None
