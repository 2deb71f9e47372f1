"""A host with NPUs for detection scenarios: what the driver, hccn_tool and the host probes would say at this moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.detect.hang import MINUTE_S, Work
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading, LinkReading, NodeFinding
from console.scenario.detection_format import WorkStep

WORK_PERIOD_S = MINUTE_S
HEALTH_WITHOUT_SEVERITY = 2
"""Health of a chip with a code of which the scenario gives no severity."""


@dataclass
class VirtualChip:
    """codes: active codes with their severities. health: as the scenario says, None = the highest severity."""

    identity: ChipIdentity
    codes: dict[str, int | None] = field(default_factory=dict)
    health: int | None = None
    error: int = 0
    hang: bool = False
    gone: bool = False
    link_up: bool | None = True
    link_why: str = ""
    work: WorkStep | None = None
    packets: int = 0
    cpu_s: float = 0.0

    def reading(self) -> ChipReading:
        if self.hang:
            return ChipReading(self.identity, hung=True, why="no answer within its deadline")
        if self.error:
            return ChipReading(self.identity, error=self.error)
        return ChipReading(self.identity, health=self.shown_health(), codes=tuple(self.codes))

    def worked(self, at: float) -> Work:
        """What a look sees, a minute after the one before. What cannot be read has gone on all the same."""
        step = self.work or WorkStep(self.identity.phy, [])
        self.packets += step.packets_per_min or 0
        self.cpu_s += step.cpu_s_per_min or 0.0
        return Work(
            at=at,
            processes=None if step.processes is None else tuple((pid, 0) for pid in sorted(step.processes)),
            aicore_pct=step.aicore_pct,
            hbm_pct=step.hbm_pct,
            packets=None if step.packets_per_min is None else self.packets,
            cpu_s=None if step.cpu_s_per_min is None else self.cpu_s,
        )

    def shown_health(self) -> int:
        if self.health is not None:
            return self.health
        severities = (HEALTH_WITHOUT_SEVERITY if severity is None else severity for severity in self.codes.values())
        return max(severities, default=0)


class VirtualMachine:
    """The state behind all sensors of one node."""

    def __init__(self, chips: int) -> None:
        self.chips = [
            VirtualChip(ChipIdentity(phy=n, card=n, chip=0, logic=n, pci=f"0000:{n + 1:02X}:00.0"))
            for n in range(chips)
        ]
        self.findings: dict[str, NodeFinding] = {}

    def driver(self) -> DriverReading:
        there = [chip for chip in self.chips if not chip.gone]
        return DriverReading(
            chips=tuple(chip.reading() for chip in there),
            pci=frozenset(chip.identity.pci for chip in there if chip.identity.pci),
        )

    def links(self) -> list[LinkReading]:
        return [LinkReading(chip.identity.phy, chip.link_up, chip.link_why) for chip in self.chips if not chip.gone]
