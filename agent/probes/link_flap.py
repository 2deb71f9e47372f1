"""RoCE ports that go down again and again, also between two looks: the link history of hccn_tool.

The tool stamps its records with the local time of the host, which may jump. So a record has the age that it had when
it was seen first, and grows older by the monotonic clock from there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import msgspec

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.limits import LinkFlap as LinkFlapLimits
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, Rounds, chips_with_ports, logic_id, reasons
from agent.probe import Observation, Sensors, partly
from agent.sensors.hccn import Down, Hccn
from agent.sensors.hccn_950 import Hccn950
from shared.model import Instant

CODE = "NW-LINK-FLAP"


class LinkFlap:
    name = "link_flap"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, limits: LinkFlapLimits) -> None:
        self.period_s = period_s
        self._sensors, self._hccn, self._limits = sensors, hccn, limits
        self._rounds = Rounds()
        self._happened: dict[int, dict[str, float]] = {}
        """By chip and record, when it was on the monotonic clock: for each record that the tool still shows."""

    async def look(self) -> Observation:
        if self._sensors.bus.generation == OTHER_DIALECT:
            histories, failed = await self._rounds.ask(sorted(self._sensors.chips.enumeration.chips), self._downs_950)
        else:
            histories, failed = await self._rounds.ask(chips_with_ports(self._sensors), self._hccn.link_downs)
        mono = time.monotonic()
        chips = tuple(judge(phy, self._ages_s(phy, downs, mono), self._limits) for phy, downs in histories.items())
        return Observation(chips=chips, partly=partly(reasons(failed)))

    async def _downs_950(self, phy: int) -> tuple[Down, ...]:
        return await Hccn950(self._hccn).link_downs(logic_id(self._sensors, phy))

    def memory(self) -> dict[int, dict[str, float]]:
        return self._happened

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        """The driver's history begins anew with the kernel."""
        happened = msgspec.json.decode(kept, type=dict[int, dict[str, float]])
        self._happened = happened if same_boot else {}

    def _ages_s(self, phy: int, downs: tuple[Down, ...], mono: float) -> list[float]:
        """A new record from the future is of a clock that was wrong then, and counts as old."""
        known = self._happened.get(phy, {})
        happened: dict[str, float] = {}
        same: Counter[str] = Counter()
        for down in reversed(downs):  # the oldest first: it is the first to leave, and the others keep their number
            same[down.stamp] += 1
            name = f"{down.stamp} {same[down.stamp]}"
            ago_s = down.ago_s if down.ago_s >= 0 else self._limits.window_s
            happened[name] = known.get(name, mono - ago_s)
        self._happened[phy] = happened
        return [mono - at for at in happened.values()]


def judge(phy: int, downs_ago_s: Iterable[float], limits: LinkFlapLimits) -> ChipFinding:
    downs = sum(ago_s < limits.window_s for ago_s in downs_ago_s)
    active = downs >= limits.downs
    return ChipFinding(phy, CODE, active, {"downs": f"{downs} in {limits.window_s:g} s"} if active else {})


def make(config: AgentConfig, sensors: Sensors) -> LinkFlap | None:
    if sensors.hccn is None:
        return None
    return LinkFlap(config.poll.links_s, sensors, sensors.hccn, config.probes.link_flap)
