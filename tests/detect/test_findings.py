"""Findings of the agent's own probes about chips, and probes that cannot look."""

from agent.detect.readings import ChipEvent, ChipFinding, ChipReading
from shared.names import CODE_CARD_LOST
from tests.detect.bench import Bench, at, failing, good, who

STALE = "NW-STALE-PROCESS"


def test_a_finding_about_a_chip_is_a_confirmed_fault_until_its_probe_sees_it_no_longer() -> None:
    bench = Bench()
    bench.poll(0, good(0), good(1))
    bench.detector.chips([ChipFinding(1, STALE, True, {"pid 7": "python"}), ChipFinding(0, STALE, False)], at(1))
    assert bench.faults(2) == {f"{STALE}@1": "PreSeparateNPU"}
    fault = bench.fault(2, f"{STALE}@1")
    assert fault.confirmed
    assert fault.evidence["pid 7"] == "python"
    bench.poll(5, good(0), good(1))
    assert f"{STALE}@1" in bench.faults(6), "the driver's list says nothing of our codes"
    assert dict(bench.view(6).healthy) == {0: True, 1: False, "node": True}
    bench.detector.chips([ChipFinding(1, STALE, False)], at(7))
    assert bench.faults(8) == {}


def test_a_chip_that_cannot_be_read_keeps_the_findings_about_it() -> None:
    bench = Bench()
    bench.poll(0, good(0))
    bench.detector.chips([ChipFinding(0, STALE, True)], at(1))
    bench.poll(5, failing(0, -8005))
    assert bench.faults(6) == {f"{STALE}@0": "PreSeparateNPU"}


def test_another_die_in_the_same_place_has_no_findings() -> None:
    bench = Bench()
    bench.poll(0, ChipReading(who(3, die="A"), health=0, codes=()))
    bench.detector.chips([ChipFinding(3, STALE, True)], at(1))
    bench.poll(5, ChipReading(who(3, die="B"), health=0, codes=()))
    assert set(bench.faults(6)) == {"NW-CHIP-CHANGED@3"}


def test_a_port_code_is_a_fault_of_the_link() -> None:
    bench = Bench()
    bench.poll(0, good(0))
    bench.detector.chips([ChipFinding(0, "NW-LINK-FLAP", True)], at(1))
    assert bench.fault(2, "NW-LINK-FLAP@0").part == "link"
    assert bench.view(2).healthy[0], "sub-health takes no chip away"


def test_a_lost_heartbeat_in_the_kernel_log_is_checked_with_the_driver_and_not_believed_against_it() -> None:
    bench = Bench()
    bench.poll(0, good(1))
    bench.detector.events([ChipEvent(1, CODE_CARD_LOST, "occur")], at(1))
    assert bench.due(1) == [(1, "confirm")]
    assert not bench.fault(1, f"{CODE_CARD_LOST}@1").confirmed
    bench.detector.reread(1, (), at(1.1), health=0)
    bench.poll(5, good(1))
    bench.poll(10, good(1))
    assert bench.faults(11) == {}


def test_a_lost_heartbeat_that_the_driver_shows_too_is_a_lost_card() -> None:
    bench = Bench()
    bench.poll(0, good(1))
    bench.detector.events([ChipEvent(1, CODE_CARD_LOST, "occur")], at(1))
    for mono in (5, 10, 15):
        bench.poll(mono, good(1, health=3))
    assert bench.faults(16) == {f"{CODE_CARD_LOST}@1": "RestartNPU"}
    assert bench.fault(16, f"{CODE_CARD_LOST}@1").confirmed


def test_a_probe_that_is_run_no_longer_is_not_blind_for_ever() -> None:
    bench = Bench()
    bench.detector.node_blind("kmsg", "no", at(0))
    bench.detector.node_blind("optical", "no tool", at(0))
    after = Bench(memory=bench.detector.memory(at(1)))
    after.detector.forget_probes({"kmsg"}, at(1))
    assert [one.probe for one in after.view(2).unknown] == ["kmsg"]
    assert after.fault(302, "NW-PROBE@node").evidence["kmsg"] == "no"
