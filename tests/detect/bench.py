"""A detector on a table: one line for each thing that happens to it, on a clock that the test moves."""

from __future__ import annotations

from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.readings import Assertion, ChipEvent, ChipIdentity, ChipReading, DriverReading
from agent.detect.settings import DetectSettings
from agent.detect.view import DetectView
from shared import catalog
from shared.model import Fault, Instant

CATALOGUE = catalog.load()
WALL_S = 1_800_000_000.0


def at(mono: float) -> Instant:
    return Instant(mono=mono, wall=WALL_S + mono)


def who(phy: int, die: str | None = None) -> ChipIdentity:
    return ChipIdentity(phy=phy, card=phy, chip=0, logic=phy, pci=f"0000:{phy + 1:02X}:00.0", die=die)


def good(phy: int, *codes: str, health: int | None = 0) -> ChipReading:
    return ChipReading(who(phy), health=health, codes=codes)


def failing(phy: int, error: int) -> ChipReading:
    return ChipReading(who(phy), error=error)


class Bench:
    def __init__(self, memory: DetectorMemory | None = None, settings: DetectSettings | None = None) -> None:
        self.detector = Detector(CATALOGUE, settings or DetectSettings(), memory)

    def poll(self, mono: float, *chips: ChipReading, silent: str | None = None) -> None:
        self.detector.driver(DriverReading(chips=chips, silent=silent), at(mono))

    def event(
        self,
        mono: float,
        phy: int,
        code: str,
        assertion: Assertion = "occur",
        *,
        severity: int = 2,
        serial: int | None = None,
    ) -> None:
        self.detector.events([ChipEvent(phy, code, assertion, severity=severity, serial=serial)], at(mono))

    def due(self, mono: float) -> list[tuple[int, str]]:
        return [(due.phy, due.reason) for due in self.detector.due(at(mono))]

    def view(self, mono: float) -> DetectView:
        return self.detector.view(at(mono))

    def faults(self, mono: float) -> dict[str, str]:
        """id -> level of the open faults."""
        return {fault.id: fault.level.value for fault in self.view(mono).faults}

    def fault(self, mono: float, fault_id: str) -> Fault:
        return next(fault for fault in self.view(mono).faults if fault.id == fault_id)
