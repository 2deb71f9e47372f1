"""RoCE port of every chip: up, down, or not to be told.

Each port is looked at at most `poll.links_s` after the last time: a round begins after two thirds of that, and its
calls go before all others of hccn_tool, several at once where one at a time would take too long. A tool that is slower
than that is told: the links that were seen hold, and the probe says how far apart its looks are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent.config import AgentConfig
from agent.detect.readings import LinkReading
from agent.ports import OTHER_DIALECT, ROUND_TIMEOUT_S, Rounds, chips_with_ports
from agent.probe import Observation, Sensors
from agent.sensors.hccn import Hccn

ROUND_SHARE = 2 / 3
PROMISE_S = 30.0
"""Who asks more often than this promises no more."""


class LinkState:
    name = "link_state"
    timeout_s = ROUND_TIMEOUT_S

    def __init__(self, links_s: float, sensors: Sensors, hccn: Hccn) -> None:
        self.period_s = ROUND_SHARE * links_s
        self.rounds = Rounds()
        self._promise_s = max(links_s, PROMISE_S)
        self._sensors, self._hccn = sensors, hccn
        self._answered: dict[int, float] = {}
        """When each port was told of last, on the monotonic clock."""

    async def look(self) -> Observation:
        gaps: dict[int, float] = {}

        async def ask(phy: int) -> LinkReading:
            link = await self._hccn.link(phy)
            mono = time.monotonic()
            if link.up is None:
                self._answered.pop(phy, None)  # it is told as unknown, which is another matter
            else:
                gaps[phy] = mono - self._answered.get(phy, mono)
                self._answered[phy] = mono
            return link

        chips = chips_with_ports(self._sensors)
        # a chip that comes back after an hour was not looked at too slowly
        self._answered = {phy: at for phy, at in self._answered.items() if phy in chips}
        links, unasked = await self.rounds.ask(chips, ask)
        unknown = (LinkReading(phy, None, why) for phy, why in unasked.items())
        return Observation(
            links=(*links.values(), *unknown), partly=too_slow(gaps.values(), self._promise_s, self._hccn)
        )


def too_slow(gaps_s: Iterable[float], promise_s: float, hccn: Hccn) -> str | None:
    """What is to be said when ports were not looked at in time."""
    longest_s = max(gaps_s, default=0.0)
    if longest_s <= promise_s:
        return None
    call = "" if hccn.pace.call_s is None else f": a call of hccn_tool takes {hccn.pace.call_s:.1f} s"
    return f"ports are looked at every {longest_s:.0f} s and not every {promise_s:g} s{call}"


def make(config: AgentConfig, sensors: Sensors) -> LinkState | None:
    if sensors.hccn is None or sensors.bus.generation == OTHER_DIALECT:
        return None
    return LinkState(config.poll.links_s, sensors, sensors.hccn)
