"""The injection on the node, without a host: what is shown beside the real faults, and what ends it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agent.commands import Refused
from agent.detect.detector import Detector
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading
from agent.detect.settings import DetectSettings
from agent.drill import DrillBench, Running
from agent.probe import Observation
from shared import catalog
from shared.commands import DrillStart
from shared.model import Fault, FaultLevel, Instant

CODE = "80E18402"
ORDER = DrillStart("d1", 1, CODE, ttl_s=60)
PCI = frozenset({"0000:c1:00.0", "0000:c2:00.0"})


class Node:
    """Two chips, their real detection, and the bench beside it. Time stands until it is moved."""

    def __init__(self, kept: Running | None = None, boot_id: str = "b") -> None:
        self.now = Instant(1000.0, 1_800_000_000.0)
        self.codes: dict[int, tuple[str, ...]] = {0: (), 1: ()}
        self.detector = Detector(catalog.load(), DetectSettings())
        self.polls = 0
        self.bench = DrillBench(self.detector.fork, boot_id=boot_id, poll=self._count, changed=lambda: None, kept=kept)
        self.look()

    def _count(self) -> None:
        self.polls += 1

    def start(self, order: DrillStart = ORDER, left_s: float = 1e6) -> str:
        return self.bench.start(order, left_s, self.detector.view(self.now), self.now)

    def after(self, seconds: float) -> None:
        self.now = Instant(self.now.mono + seconds, self.now.wall + seconds)

    def look(self, times: int = 1) -> None:
        """Polls, five seconds apart."""
        for _ in range(times):
            chips = tuple(
                ChipReading(ChipIdentity(phy, pci=pci), health=0 if not codes else 3, codes=codes)
                for (phy, codes), pci in zip(self.codes.items(), sorted(PCI), strict=True)
            )
            seen = Observation(driver=DriverReading(chips, pci=PCI))
            assert seen.driver is not None
            self.detector.driver(seen.driver, self.now)
            self.bench.see(seen, self.now)
            self.after(5)

    def shown(self) -> dict[str, Fault]:
        view, _, _ = self.bench.shown(self.detector.view(self.now), self.now)
        return {fault.id: fault for fault in view.faults}

    def events(self) -> list[tuple[str, str]]:
        _, events, _ = self.bench.shown(self.detector.view(self.now), self.now)
        return [(event.kind, event.id) for event in events]


KINDS: dict[str, tuple[DrillStart, str, FaultLevel]] = {
    "a code of the driver": (ORDER, "80E18402@1", FaultLevel.SEPARATE_NPU),
    "a code nobody knows": (replace(ORDER, code="8F000001"), "8F000001@1", FaultLevel.SEPARATE_NPU),
    "in small letters": (replace(ORDER, code="80e18402"), "80E18402@1", FaultLevel.SEPARATE_NPU),
    "a lost card": (replace(ORDER, code="40F84E00"), "40F84E00@1", FaultLevel.RESTART_NPU),
    "a flapping port": (replace(ORDER, code="NW-LINK-FLAP"), "NW-LINK-FLAP@1", FaultLevel.SUB_HEALTH),
    "a port that is down": (replace(ORDER, code="81078603"), "81078603@1", FaultLevel.NOT_HANDLE),
    "a driver that hangs": (
        replace(ORDER, code="NW-MONITOR-BLIND", chip="node"),
        "NW-MONITOR-BLIND@node",
        FaultLevel.PRE_SEPARATE_NPU,
    ),
}


@pytest.mark.parametrize(("order", "fault", "level"), KINDS.values(), ids=KINDS.keys())
def test_what_is_injected_shows_as_a_drill_and_goes(order: DrillStart, fault: str, level: FaultLevel) -> None:
    node = Node()
    node.start(order)
    node.look(3)
    assert node.events() == [("raised", fault)]
    (shown,) = node.shown().values()
    assert (shown.id, shown.level, shown.origin, shown.confirmed) == (fault, level, "drill", True)
    assert (shown.evidence["drill"], shown.evidence["effect"]) == ("d1", "shadow")
    assert node.detector.view(node.now).faults == (), "the real detection has seen nothing of it"
    node.bench.stop("d1")
    assert node.events() == [("cleared", fault)]
    assert node.shown() == {}


@pytest.mark.parametrize("order", [order for order, _, _ in KINDS.values()], ids=KINDS.keys())
def test_no_real_fault_is_masked(order: DrillStart) -> None:
    node = Node()
    node.start(order)
    node.look(3)
    node.codes = {0: ("80E18402",), 1: ("80CB8009",)}
    node.look(3)
    real = {fault.id for fault in node.detector.view(node.now).faults}
    assert {"80E18402@0", "80CB8009@1"} <= real
    shown = node.shown()
    assert {name for name, fault in shown.items() if fault.origin == "probe"} == real


def test_a_fault_that_turns_real_is_real() -> None:
    node = Node()
    node.start()
    node.look()
    assert node.shown()["80E18402@1"].origin == "drill"
    node.codes[1] = (CODE,)
    node.look()
    assert node.shown()["80E18402@1"].origin == "probe"
    node.bench.stop("d1")
    assert node.shown()["80E18402@1"].origin == "probe"


@pytest.mark.parametrize(("ttl_s", "left_s"), [(20, 1e6), (3600, 20)], ids=["its own time", "the command's"])
def test_it_ends_at_its_time(ttl_s: float, left_s: float) -> None:
    node = Node()
    node.start(replace(ORDER, ttl_s=ttl_s), left_s)
    node.look()
    assert node.bench.wake_at == pytest.approx(1025)
    node.after(14)
    assert node.shown()
    node.after(2)
    assert node.events() == [("cleared", "80E18402@1")]
    node.look(3)
    assert node.shown() == {}
    assert node.bench.running is None


def test_a_clock_that_goes_back_prolongs_nothing() -> None:
    node = Node()
    node.start()
    node.look()
    node.now = Instant(node.now.mono + 60, node.now.wall - 3600)
    assert node.shown() == {}


def test_it_survives_a_restart_and_no_reboot() -> None:
    first = Node()
    first.start()
    assert first.bench.running is not None
    kept = msgspec.json.decode(msgspec.json.encode(first.bench.running), type=Running)
    second = Node(kept)
    second.look()
    assert second.shown().keys() == {"80E18402@1"}
    assert Node(kept, boot_id="another").bench.running is None
    late = Node()
    late.after(120)
    late.bench = DrillBench(late.detector.fork, boot_id="b", poll=late._count, changed=lambda: None, kept=kept)
    assert late.shown() == {}


REFUSED: dict[str, tuple[DrillStart, str]] = {
    "a chip that is not there": (replace(ORDER, chip=7), "no chip 7; the physical ids of this node are 0, 1"),
    "no code": (replace(ORDER, code="rm -rf /"), "is no fault code"),
    "a chip's code for the node": (replace(ORDER, chip="node"), "is a code of a chip"),
    "the node's code for a chip": (replace(ORDER, code="NW-MONITOR-BLIND"), "is a fault of the node"),
    "silence of one chip": (replace(ORDER, code="NW-AGENT-SILENT"), "is a fault of the node"),
}


@pytest.mark.parametrize(("order", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused(order: DrillStart, why: str) -> None:
    node = Node()
    with pytest.raises(Refused, match=why):
        node.start(order)
    node.look()
    assert node.shown() == {}


def test_one_at_a_time_and_none_of_what_is_there() -> None:
    node = Node()
    node.start()
    assert "already" in node.start()
    with pytest.raises(Refused, match="drill d1 runs on this node"):
        node.start(replace(ORDER, drill="d2"))
    assert "does not run here" in node.bench.stop("d2")
    node.bench.stop("d1")
    node.codes[1] = (CODE,)
    node.look()
    with pytest.raises(Refused, match="it is real"):
        node.start()
    with pytest.raises(Refused, match="boot id"):
        Node(boot_id="").start()


def test_its_history_is_nobodys() -> None:
    """A code that trips a frequency rule at its third time is not counted by drills."""
    node = Node()
    before = node.detector.memory(node.now).tracks
    for number in range(5):
        node.start(replace(ORDER, drill=f"d{number}", code="80E18008"))
        node.look(2)
        node.bench.stop(f"d{number}")
        node.look()
    after: Any = node.detector.memory(node.now).tracks
    assert after == before


SILENT = replace(ORDER, chip="node", code="NW-AGENT-SILENT")


def withheld(node: Node) -> bool:
    news = bool(node.detector.drain_events())
    return node.bench.withholds(node.detector.view(node.now), node.now, news=news)


def silent_node() -> Node:
    """It has said that it falls silent, and has."""
    node = Node()
    withheld(node)
    node.start(SILENT)
    assert not withheld(node), "the report that says so goes out"
    assert node.bench.drill is not None
    assert node.bench.drill.fault == "NW-AGENT-SILENT@node"
    assert withheld(node)
    assert node.bench.withholding
    return node


def test_a_silent_agent_shows_no_fault_and_asks_for_no_looks() -> None:
    node = silent_node()
    node.look(3)
    assert withheld(node)
    assert (node.shown(), node.bench.wants_look) == ({}, False)
    assert "has ended" in node.bench.stop("d1")
    assert not withheld(node)
    assert node.bench.drill is None


def test_a_real_fault_ends_the_silence_and_so_does_its_end() -> None:
    node = silent_node()
    node.codes[1] = (CODE,)
    node.look()
    assert not withheld(node)
    assert (node.bench.running, node.shown()["80E18402@1"].origin) == (None, "probe")
    node.start(replace(SILENT, drill="d2"))
    assert (withheld(node), withheld(node)) == (False, True)
    node.codes[1] = ()
    node.look(3)
    assert not withheld(node)


def test_a_fault_that_comes_and_goes_between_two_reports_is_told() -> None:
    node = silent_node()
    assert not node.bench.withholds(node.detector.view(node.now), node.now, news=True)
    assert node.bench.running is None


def test_silence_ends_at_its_time_and_with_its_process() -> None:
    node = silent_node()
    kept = node.bench.running
    assert kept is not None
    assert Node(kept).bench.running is None, "the next process has news to tell: that it is there"
    node.after(61)
    assert not withheld(node)
    assert node.bench.drill is None
