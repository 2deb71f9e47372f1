"""Asking hccn_tool about every RoCE port: what the probes of ports share."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.probe import CannotLook, Sensors
from agent.sensors.hccn import TIMEOUT_S, Hccn
from agent.sensors.process import ToolError
from agent.sensors.turns import MOST_AT_ONCE

T = TypeVar("T")

MAX_CHIPS = 16
ROUND_TIMEOUT_S = MAX_CHIPS * TIMEOUT_S
MARGIN_S = 70.0
"""So long before its time is over a round asks no more: the calls in flight may wait for those of the other probes."""
OTHER_DIALECT = "950"
"""There the tool asks for a die and a port."""


def chips_with_ports(sensors: Sensors) -> list[int]:
    """Physical ids. Raises CannotLook where the tool speaks another dialect."""
    if sensors.bus.generation == OTHER_DIALECT:
        raise CannotLook("the ports of the 950 are asked for by die and port")
    return sorted(sensors.chips.enumeration.chips)


def logic_id(sensors: Sensors, phy: int) -> int:
    """By which the 950's tool names a chip."""
    chip = sensors.chips.enumeration.chips.get(phy)
    return phy if chip is None or chip.identity.logic is None else chip.identity.logic


class Rounds:
    """Every chip once, as many at the same time as the tool's turns allow. A round that runs out of time tells what it
    knows, and the next one begins with the rest."""

    def __init__(self, round_s: float = ROUND_TIMEOUT_S - MARGIN_S) -> None:
        self.round_s = round_s
        self._rest: frozenset[int] = frozenset()

    async def ask(
        self, chips: Sequence[int], ask: Callable[[int], Awaitable[T]]
    ) -> tuple[dict[int, T], dict[int, str]]:
        """The answers by physical id, and why others are missing."""
        queue = deque(sorted(chips, key=lambda phy: phy not in self._rest))
        until = time.monotonic() + self.round_s
        answers: dict[int, T] = {}
        failed: dict[int, str] = {}

        async def one_after_the_other() -> None:
            while queue and time.monotonic() < until:
                phy = queue.popleft()
                try:
                    answers[phy] = await ask(phy)
                except ToolError as exc:
                    failed[phy] = str(exc)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(MOST_AT_ONCE, len(queue))):
                group.create_task(one_after_the_other())
        self._rest = frozenset(queue)
        why = f"hccn_tool had not come to it when the {self.round_s:g} s of this round were over"
        failed |= dict.fromkeys(queue, why)
        return dict(sorted(answers.items())), dict(sorted(failed.items()))


def reasons(failed: Mapping[int, str]) -> list[str]:
    return [f"chip {phy}: {why}" for phy, why in failed.items()]


class PortStreaks:
    """What the probes share whose evidence against a port counts once it was there in `looks` looks in a row."""

    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, *, looks: int) -> None:
        self.period_s = period_s
        self._sensors, self._hccn = sensors, hccn
        self._bad = Streak(looks)
        self._rounds = Rounds()

    def _findings(self, phy: int, code: str, evidence: dict[str, str]) -> Iterator[ChipFinding]:
        """At most one: none while the evidence was not there often enough. No evidence ends the fault at once."""
        bad = self._bad.judge((phy, code), bool(evidence))
        if bad is not None:
            yield ChipFinding(phy, code, bad, evidence if bad else {})
