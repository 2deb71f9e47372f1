"""A host that lies to its agent for a day: what it is really like, what goes wrong with looking at it, and when.

Detection and the probes are the real ones; the clock, the driver and the tools are not. Times are seconds since the
beginning; the two clocks that the agent sees follow from them, jumps and reboots included.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import msgspec

from agent.decode.hccn_optical import Optical as Module
from agent.decode.hccn_port import NetHealth as NetHealthAnswer
from agent.detect.detector import Detector
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading, LinkReading
from agent.feed import feed
from agent.probe import CannotLook, ChipSource, Probe
from agent.sensors.cpu_time import CpuTime
from agent.sensors.gauges import Gauge, Measured
from agent.sensors.hccn import Down
from agent.sensors.npu_smi_gauges import text_words
from agent.sensors.process import ToolError
from agent.sensors.worker import ChipFacts, Enumeration
from shared.model import Instant

T = TypeVar("T")

DAY_S = 86_400.0
PHYS = (0, 1, 2)
STRANGER = 77
"""A device that no driver lists."""
WHO = {
    phy: ChipIdentity(phy, card=phy, chip=0, logic=phy, pci=f"0000:{phy + 1:02X}:00.0", die=f"D{phy}") for phy in PHYS
}
BUS = frozenset(str(who.pci) for who in WHO.values())
FIRMWARE = text_words("7.7.0.3.231")
CALL_ERRORS = (-8001, -8005, -8006, -8009, -8010, -8011, -8013, -8020, -8255, -8002)
LOST_ERRORS = (-8007, -8008, -8012)
MISSING_ALLOWED = 2
"""Polls in a row in which a chip may seem gone; one more is a lost chip by definition."""

DRIVER_KINDS = ("error", "missing", "hung", "no list", "old list", "silent", "lists nothing", "no bus", "slow")
TOOL_KINDS = ("tool fails", "gauge fails", "gauge absent", "one bad look")
AGENT_KINDS = ("restart", "reboot", "clock", "events", "storm", "recovers", "strangers")


class Noise(msgspec.Struct, frozen=True):
    """One trouble with looking. `chip` None: all of them. `seed` decides its details."""

    kind: str
    start: float
    length: float
    chip: int | None
    seed: int

    def on(self, t: float, phy: int | None = None) -> bool:
        return self.start <= t < self.start + self.length and (phy is None or self.chip in (None, phy))


class Real(msgspec.Struct, frozen=True):
    """A fault that is really there, in the driver's list all the time. `code` "link": the port is down."""

    phy: int
    code: str
    start: float
    length: float

    def on(self, t: float) -> bool:
        return self.start <= t < self.start + self.length


class Host:
    """The truth, the noise over it, and what of the truth the agent has had a chance to see."""

    def __init__(self, noise: Sequence[Noise], reals: Sequence[Real] = ()) -> None:
        self.noise, self.reals = noise, reals
        self.t = 0.0
        self._wall_ahead, self._boot_at = 0.0, -10_000.0
        self._missing = dict.fromkeys(PHYS, 0)
        self._last_bad: dict[tuple[str, int], bool] = {}
        self._downs = [self.wall - 5 * 3600 - 10 * n for n in range(5)]  # a bad morning, long over
        self.listed: dict[int, frozenset[str]] = {phy: frozenset() for phy in PHYS}
        """The codes in the newest good reading of each chip."""
        self.link_seen: dict[int, bool] = {}
        self.link_seen_at: dict[int, float] = {}
        self.sees = dict.fromkeys(PHYS, False)
        """Whether the newest look at each chip was a good one."""
        self.good_polls = dict.fromkeys((*PHYS, STRANGER), 0)
        self.blind_polls = 0

    # Clocks.

    @property
    def wall(self) -> float:
        return 1_800_000_000.0 + self.t + self._wall_ahead

    @property
    def now(self) -> Instant:
        return Instant(mono=self.t - self._boot_at, wall=self.wall)

    def jump(self, dice: random.Random) -> None:
        """Somebody sets the wall clock: anywhere, or back to the bad morning."""
        bad_morning = self._downs[0] + 600 - self.wall if self._downs else 0.0
        self._wall_ahead += dice.choice((dice.uniform(-10, 10) * 3600, bad_morning))

    def reboot(self) -> None:
        self._boot_at = self.t - 30.0
        self._downs = []  # kept in the driver's memory

    def on(self, kind: str, phy: int | None = None) -> Noise | None:
        return next((one for one in self.noise if one.kind == kind and one.on(self.t, phy)), None)

    def codes(self, phy: int) -> frozenset[str]:
        return frozenset(
            real.code for real in self.reals if real.phy == phy and real.code != "link" and real.on(self.t)
        )

    # The driver.

    def poll(self) -> DriverReading:
        pci = None if self.on("no bus") else BUS
        if silent := self.on("silent"):
            self.blind_polls += 1
            self.sees = dict.fromkeys(PHYS, False)
            return DriverReading(silent=random.Random(silent.seed).choice(("child gone", "init hangs")), pci=pci)
        fresh = self.on("old list") is None
        chips = (
            () if self.on("lists nothing") else tuple(one for phy in PHYS if (one := self._reading(phy)) is not None)
        )
        self.blind_polls = self.blind_polls + 1 if not chips or any(one.hung for one in chips) else 0
        self.sees = dict.fromkeys(PHYS, False)
        for one in chips:
            self._note_good(one)
        if chips:
            self.good_polls[STRANGER] += 1
        return DriverReading(chips=chips, fresh=fresh, pci=pci)

    def reread(self, phy: int) -> ChipReading | None:
        """What the agent asks for between two polls."""
        if self.on("silent") or phy not in PHYS:
            return None
        one = self._reading(phy)
        if one is not None:
            self._note_good(one, poll=False)
        return one

    def _note_good(self, one: ChipReading, *, poll: bool = True) -> None:
        if one.error is None and one.codes is not None and not (one.health == 3 and not one.codes):
            self.listed[one.chip.phy] = frozenset(one.codes)
            self.good_polls[one.chip.phy] += poll
            self._missing[one.chip.phy] = 0
            self.sees[one.chip.phy] = True

    def _reading(self, phy: int) -> ChipReading | None:
        """None: not in the list."""
        who = WHO[phy]
        if self.on("old list", phy):
            return None
        if (gone := self.on("missing", phy)) and self._missing[phy] < MISSING_ALLOWED:
            self._missing[phy] += 1
            way = random.Random(gone.seed).randrange(5)
            if way == 0:
                return None
            return ChipReading(who, error=LOST_ERRORS[way - 1]) if way < 4 else ChipReading(who, health=3, codes=())
        if self.on("hung", phy):
            return ChipReading(who, hung=True)
        if failed := self.on("error", phy):
            told = who if failed.seed % 2 else ChipIdentity(phy)  # a failing chip may not even tell who it is
            return ChipReading(told, error=random.Random(failed.seed).choice(CALL_ERRORS))
        codes = tuple(sorted(self.codes(phy)))
        if self.on("no list", phy):
            return ChipReading(who, health=0)
        return ChipReading(who, health=2 if codes else 0, codes=codes)

    # Ports: what `Hccn` and `Gauges` of the sensors answer.

    async def link(self, phy: int) -> LinkReading:
        if self.on("tool fails", phy):
            return LinkReading(phy, None, "hccn_tool is busy, please try again.")
        up = not any(real.on(self.t) for real in self.reals if real.phy == phy and real.code == "link")
        if self.link_seen.get(phy) is not up:
            self.link_seen_at[phy] = self.t
        self.link_seen[phy] = up
        return LinkReading(phy, up=up)

    async def link_downs(self, phy: int) -> tuple[Down, ...]:
        self._tool(phy)
        return tuple(Down(stamp=f"{at:.0f}", ago_s=self.wall - at) for at in self._downs)

    async def net_health(self, phy: int) -> NetHealthAnswer:
        self._tool(phy)
        bad = self._bad("net", phy)
        return NetHealthAnswer(status="Unreachable" if bad else "Success", healthy=not bad)

    async def optical(self, phy: int) -> Module:
        self._tool(phy)
        return Module(present=True, serial=f"S{phy}", rx_los=3 if self._bad("optical", phy) else 0)

    async def stat(self, phy: int) -> dict[str, int]:
        self._tool(phy)
        sent = {"roce_rx_all_pkt_num": int(self.t) + 1, "roce_tx_all_pkt_num": 7}
        return {"mac_rx_bad_pkt_num": 4711, "roce_rx_err_pkt_num": 13, **sent}

    async def reaches(self, phy: int, address: str) -> bool:
        self._tool(phy)
        return not self._bad(f"ping {address}", phy)

    def cpu_times(self, pids: frozenset[int]) -> dict[int, CpuTime]:
        """The engine of every chip runs and waits: a second of CPU in a minute."""
        return {pid: CpuTime(start=1, used_s=self.t / 60) for pid in pids}

    async def measure(self, what: str) -> tuple[Measured, ...] | None:
        if self.on("silent"):
            return None
        return tuple(self._measured(what, phy) for phy in PHYS)

    def _tool(self, phy: int) -> None:
        if self.on("tool fails", phy):
            raise ToolError("hccn_tool ended with 11: hccn_tool is busy, please try again.")

    def _measured(self, what: str, phy: int) -> Measured:
        if self.on("gauge fails", phy):
            return Measured(WHO[phy], (Gauge(why="the driver answered -8006"),) * 3)
        if self.on("gauge absent", phy):  # counting is off; a controller that could not read; a chip without HBM
            first = Gauge((0, 0, 0, 0, 9999, 0, 9999) if what == "ecc" else (0x7FFD,))
            return Measured(WHO[phy], (Gauge() if what == "hccs" else first, Gauge(), Gauge((0,) * 8)))
        bad = self._bad(what, phy)
        words = {
            "ecc": (Gauge((1, 3, 0, 10, 7, 1, 2)),),
            "heat": (Gauge((200 if bad else 45,)), Gauge((1028,)), Gauge((65536, 0, 1600, 0, 3445, 0, 52, 0))),
            "hccs": (Gauge((0, 2 if bad else 3)), Gauge((7,) * 128)),
            "work": (Gauge((0 if bad else 30,)), Gauge((80,)), Gauge((4711,))),
            "versions": (Gauge((1,)), Gauge(FIRMWARE)),
        }
        return Measured(WHO[phy], words[what])

    def _bad(self, what: str, phy: int) -> bool:
        """Bad in one look, and never in the next."""
        bad = bool(self.on("one bad look", phy)) and not self._last_bad.get((what, phy), False)
        self._last_bad[what, phy] = bad
        return bad

    # Time.

    def times(self, calm_s: float) -> Iterator[float]:
        """The moments of the polls: every 5 s around what happens, seldom in quiet hours."""
        happens: list[Noise | Real] = [*self.noise, *self.reals]
        edges = [edge for one in happens for edge in (one.start, one.start + one.length)]
        busy = [(one.start - 20, one.start + one.length + 60) for one in self.noise]
        busy += [(edge - 20, edge + 60) for edge in edges]
        t, end = 0.0, max([DAY_S, *edges]) + calm_s
        while t < end:
            yield t
            if any(start <= t <= stop for start, stop in busy):
                t += 60.0 if any(one.kind == "slow" and one.on(t) for one in self.noise) else 5.0
            else:
                t = min([t + 300.0, *(start for start, _ in busy if start > t)])


class Chips:
    """What the probes ask the sensors for: which chips there are."""

    def renew(self) -> None:
        """They are always these."""

    name = "noise"
    enumeration = Enumeration({phy: ChipFacts((phy, 0), who, ip=f"10.0.0.{phy}") for phy, who in WHO.items()})


CHIPS = cast(ChipSource, Chips())


async def look_once(detector: Detector, probe: Probe, now: Callable[[], Instant]) -> None:
    """One look of a probe as the agent makes it; `now` is asked when it is over."""
    seen, why = None, None
    try:
        seen = await probe.look()
        why = seen.trouble
    except CannotLook as exc:
        why = str(exc)
    detector.node_blind(probe.name, why, now())
    if seen is not None:
        feed(detector, probe.name, seen, now())
