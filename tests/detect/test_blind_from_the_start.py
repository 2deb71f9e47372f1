"""A driver that has never said a word: no chip is known that could be unknown, and still nobody may call it healthy."""

from agent.answers import Verdict
from agent.detect.readings import ChipEvent, ChipIdentity, ChipReading, DriverReading
from shared.model import NODE, AgentInfo, NodeReport
from shared.names import CODE_MONITOR_BLIND
from tests.detect.bench import Bench, at

SILENT = DriverReading(silent="neither libdcmi.so nor npu-smi was found", pci=frozenset({"0000:01:00.0"}))
WELL = DriverReading(chips=(ChipReading(ChipIdentity(0, pci="0000:01:00.0"), health=0, codes=()),), pci=SILENT.pci)


def verdict(bench: Bench, mono: float) -> bool | None:
    view = bench.view(mono)
    report = NodeReport(
        1, "node-a", "s", 1, "b", mono, AgentInfo("1"), chips=view.chips, faults=view.faults, unknown=view.unknown
    )
    return Verdict.of(report).healthy


def test_the_first_silent_poll_makes_the_node_unknown_and_the_second_blind() -> None:
    bench = Bench()
    bench.detector.driver(SILENT, at(0))
    (unknown,) = bench.view(0).unknown
    assert (unknown.chip, unknown.probe, unknown.why) == (NODE, "driver", SILENT.silent)
    assert verdict(bench, 0) is None
    bench.detector.driver(SILENT, at(5))
    assert set(bench.faults(5)) == {f"{CODE_MONITOR_BLIND}@node"}
    assert verdict(bench, 5) is False, "a node that takes no new work"
    bench.detector.driver(WELL, at(10))
    assert (bench.view(10).unknown, bench.faults(10), verdict(bench, 10)) == ((), {}, True)


def test_a_chip_that_only_an_event_has_named_does_not_stand_for_the_others() -> None:
    bench = Bench()
    bench.detector.events([ChipEvent(3, "80E18402", "occur")], at(0))
    bench.detector.driver(SILENT, at(1))
    assert [one.chip for one in bench.view(1).unknown] == [NODE]


def test_a_host_whose_npus_all_belong_to_virtual_machines_is_not_blind() -> None:
    bench = Bench()
    given_away = DriverReading(silent="no device", pci=frozenset(), passed_through=frozenset({"0000:01:00.0"}))
    for mono in (0, 5, 10):
        bench.detector.driver(given_away, at(mono))
    assert (bench.view(10).unknown, verdict(bench, 10)) == ((), True)


def test_once_chips_are_known_they_are_unknown_themselves() -> None:
    bench = Bench()
    bench.detector.driver(WELL, at(0))
    bench.detector.driver(SILENT, at(5))
    assert [one.chip for one in bench.view(5).unknown] == [0]
