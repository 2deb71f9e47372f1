"""Asking hccn_tool about every RoCE port, one after the other: what the probes of ports share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.probe import CannotLook, Sensors
from agent.sensors.hccn import TIMEOUT_S, Hccn
from agent.sensors.process import ToolError

T = TypeVar("T")

MAX_CHIPS = 16
ROUND_TIMEOUT_S = MAX_CHIPS * TIMEOUT_S
OTHER_DIALECT = "950"
"""There the tool asks for a die and a port."""


def chips_with_ports(sensors: Sensors) -> list[int]:
    """Physical ids. Raises CannotLook where the tool speaks another dialect."""
    if sensors.bus.generation == OTHER_DIALECT:
        raise CannotLook("the ports of the 950 are not looked at")
    return sorted(sensors.chips.enumeration.chips)


async def ask_ports(sensors: Sensors, ask: Callable[[int], Awaitable[T]]) -> tuple[dict[int, T], list[str]]:
    """The answers by physical id, and why others are missing, chip by chip. Raises CannotLook."""
    answers: dict[int, T] = {}
    failed: list[str] = []
    for phy in chips_with_ports(sensors):
        try:
            answers[phy] = await ask(phy)
        except ToolError as exc:
            failed.append(f"chip {phy}: {exc}")
    return answers, failed


class PortStreaks:
    """What the probes share whose evidence against a port counts once it was there in `looks` looks in a row."""

    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, *, looks: int) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn
        self._bad = Streak(looks)

    def _findings(self, phy: int, code: str, evidence: dict[str, str]) -> Iterator[ChipFinding]:
        """At most one: none while the evidence was not there often enough. No evidence ends the fault at once."""
        bad = self._bad.judge((phy, code), bool(evidence))
        if bad is not None:
            yield ChipFinding(phy, code, bad, evidence if bad else {})
