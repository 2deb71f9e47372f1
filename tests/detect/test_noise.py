"""A day of noise raises no fault, hides none and ends none: the pure pipeline with its probes, on a virtual clock.

The oracle is one sentence: the confirmed faults of a chip are exactly what its newest good reading has listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent import ports, remembering
from agent.config import AgentConfig
from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.readings import ChipEvent
from agent.detect.settings import DetectSettings
from agent.feed import feed
from agent.peer_book import PeerBook
from agent.probe import Observation, Probe, Sensors
from agent.probes import (
    chip_hang,
    hbm_ecc,
    hccs,
    link_flap,
    link_state,
    net_health,
    optical,
    peers,
    port_errors,
    temperature_power,
    versions,
)
from agent.remembering import recall, remember
from agent.sensors.hccn import Hccn
from agent.sensors.pci import PciBus
from shared.commands import Peer
from shared.model import NODE, Fault
from shared.names import CODE_BOOT_FINISHED, CODE_LINK_DOWN, CODE_MONITOR_BLIND, CODE_PROBE_FAILING
from tests.detect.bench import CATALOGUE
from tests.detect.noise import (
    AGENT_KINDS,
    CHIPS,
    DAY_S,
    DRIVER_KINDS,
    PHYS,
    STRANGER,
    TOOL_KINDS,
    Host,
    Noise,
    Real,
    look_once,
)

pytestmark = pytest.mark.slow  # a whole day, again and again: ten seconds of CPU

PROBES = (link_state, link_flap, net_health, optical, port_errors, hbm_ecc, temperature_power, hccs, versions)
PEERS = tuple(Peer(f"node-{n}", {phy: f"10.1.{n}.{phy}" for phy in PHYS}) for n in range(3))
PLAIN = ("80E18402", "80CB8009", "80E21007", "80FEED01")
"""Codes without a time rule: SeparateNPU, RestartRequest, NotHandleFault, and one the catalogue does not know."""
RULED = ("80E18008", CODE_LINK_DOWN)
CALM_S = 7200.0
"""Long enough for every window, and for the probes to have looked well again and again."""
POLL_S = 5.0


class Agent:
    """The agent without its processes: detector and probes, restarted with what they have saved."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.host, self._loop = host, loop
        self._next_look: dict[str, float] = {}
        self._start(None)

    def _start(self, memory: DetectorMemory | None) -> None:
        tools: Any = self.host
        sensors = Sensors(chips=CHIPS, bus=PciBus(Path("/nowhere")), hccn=cast(Hccn, tools), gauges=tools)
        made = [module.make(AgentConfig(), sensors) for module in PROBES]
        self.probes: list[Probe] = [probe for probe in made if probe is not None]
        assert len(self.probes) == len(PROBES)
        book = PeerBook()
        book.give(PEERS, until=float("inf"))
        self.probes += [
            chip_hang.ChipHang(sensors, tools, cast(Hccn, tools), self.host.cpu_times, AgentConfig().probes.chip_hang),
            peers.Peers(30.0, sensors, cast(Hccn, tools), book, looks=2),
        ]
        self.detector = Detector(CATALOGUE, DetectSettings(), memory)
        self.detector.forget_probes({probe.name for probe in self.probes}, self.host.now)

    def restart(self, *, reboot: bool) -> None:
        saved = msgspec.json.encode(self.detector.memory(self.host.now)), remember(self.probes)
        self.host.t += 3.0
        if reboot:
            self.host.reboot()
        now = self.host.now
        self._start(msgspec.json.decode(saved[0], type=DetectorMemory).rebased(now, same_boot=not reboot))
        recall(self.probes, saved[1], now, same_boot=not reboot)

    def poll(self) -> None:
        feed(self.detector, "chip_health", Observation(driver=self.host.poll()), self.host.now)

    def look(self) -> None:
        """Every other probe whose time has come."""
        due = [probe for probe in self.probes if self.host.t >= self._next_look.get(probe.name, 0.0)]
        if due:
            self._loop.run_until_complete(self._look_at(due))

    async def _look_at(self, due: list[Probe]) -> None:
        for probe in due:
            self._next_look[probe.name] = self.host.t + probe.period_s
            await look_once(self.detector, probe, lambda: self.host.now)

    def answer(self) -> None:
        for due in self.detector.due(self.host.now):
            one = self.host.reread(due.phy)
            if one is None or one.hung:
                self.detector.reread(due.phy, None, self.host.now)
            else:
                self.detector.reread(due.phy, one.codes, self.host.now, error=one.error, health=one.health)


class Day:
    """One run, checked after every step."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self.agent = Agent(host, loop)
        self._begun: set[int] = set()
        self._phantoms: dict[str, int] = {}
        self._seen_at: dict[Real, float] = {}

    def run(self) -> None:
        for t in self.host.times(CALM_S):
            self.host.t = max(t, self.host.t)
            self._happen()
            self.agent.poll()
            self._check("poll")
            self.agent.look()
            self._check("looks")
            self.host.t += (
                1.2  # recover events have been held long enough, and nothing else is due before the next poll
            )
            self.agent.answer()
            self._check("answers")
        assert self.agent.detector.view(self.host.now).faults == ()
        assert self.agent.detector.view(self.host.now).unknown == ()
        self._check_delays()

    def _happen(self) -> None:
        for number, one in enumerate(self.host.noise):
            if one.kind not in AGENT_KINDS or not one.on(self.host.t):
                continue
            first = number not in self._begun
            self._begun.add(number)
            dice = random.Random(f"{one.seed} {self.host.t}")
            if one.kind in ("restart", "reboot") and first:
                self.agent.restart(reboot=one.kind == "reboot")
            elif one.kind == "clock" and first:
                self.host.jump(dice)
            elif one.kind in ("events", "recovers", "strangers") or (one.kind == "storm" and first):
                self._events(one, dice)
                self._check(one.kind)
                self.agent.answer()
                self._check(f"answers to {one.kind}")

    def _events(self, one: Noise, dice: random.Random) -> None:
        phy = STRANGER if one.kind == "strangers" else dice.choice(PHYS) if one.chip is None else one.chip
        events = []
        for _ in range(1200 if one.kind == "storm" else dice.randint(1, 4)):
            severity, serial = dice.choice((None, 0, 1, 2, 3)), dice.choice((None, dice.randint(1, 1 << 31)))
            if one.kind == "recovers":
                code = dice.choice((*PLAIN, *RULED, CODE_BOOT_FINISHED, "98028802"))
                events.append(ChipEvent(phy, code, "recover", severity, serial))
            elif dice.random() < 0.3:  # happens, and is over: no rule counts it
                events.append(ChipEvent(phy, dice.choice(PLAIN), "once", severity, serial))
            else:
                events.append(
                    ChipEvent(phy, dice.choice(PLAIN + RULED), dice.choice(("occur", "recover")), severity, serial)
                )
        self.agent.detector.events(events, self.host.now)
        self._phantoms |= {f"{event.code}@{phy}": self.host.good_polls[phy] for event in events}

    def _check(self, after: str) -> None:
        view = self.agent.detector.view(self.host.now)
        where = f"after {after} at {self.host.t:.1f} s"
        listed = {f"{code}@{phy}" for phy, codes in self.host.listed.items() for code in codes}
        down = {f"{CODE_LINK_DOWN}@{phy}" for phy, up in self.host.link_seen.items() if not up}
        blind = {f"{CODE_MONITOR_BLIND}@{NODE}"} if self.host.blind_polls >= 2 else set()
        must = listed | down | blind
        may = must | {f"{CODE_PROBE_FAILING}@{NODE}"} | self._ports_that_were_down()
        confirmed = {fault.id for fault in view.faults if fault.confirmed}
        assert must <= confirmed, f"{where}: {must - confirmed} is hidden"
        assert confirmed <= may, f"{where}: {confirmed - may} is false"
        for fault in view.faults:
            assert fault.confirmed or self._may_still_stand(fault), f"{where}: {fault.id} was never there"
        bad = [chip.phy for chip in view.chips if chip.health == "ok" and not self.host.sees[chip.phy]]
        assert not bad, f"{where}: chips {bad} cannot be read and are called ok"
        for real in self.host.reals:
            if f"{real.code}@{real.phy}" in confirmed and real.on(self.host.t):
                self._seen_at.setdefault(real, self.host.t)

    def _may_still_stand(self, fault: Fault) -> bool:
        """An event that the driver's list does not bear out is over after two good polls of its chip."""
        heard = self._phantoms.get(fault.id)
        return heard is not None and self.host.good_polls[cast(int, fault.chip)] - heard < 2

    def _ports_that_were_down(self) -> set[str]:
        """The duration rule holds them for a while; that they end at last is checked at the end of the day."""
        return {f"{CODE_LINK_DOWN}@{r.phy}" for r in self.host.reals if r.code == "link" and r.start <= self.host.t}

    def _check_delays(self) -> None:
        for real in self.host.reals:
            near = [one for one in self.host.noise if one.start - 70 < real.start < one.start + one.length + 10]
            if real.code != "link" and not near:
                assert self._seen_at[real] - real.start <= POLL_S + 1.2, real


@contextlib.contextmanager
def clock_of(host: Host) -> Iterator[None]:
    """Probes that count on the monotonic clock read the host's. How long a call takes is measured on one that stands:
    a stall of this machine is none of the simulated day, and would pass for a slow tool."""
    with contextlib.ExitStack() as stack:
        for module in (ports, link_state):
            stack.enter_context(mock.patch.object(module, "time", SimpleNamespace(monotonic=lambda: 0.0)))
        for module in (link_flap, port_errors, hbm_ecc, hccs, chip_hang, peers, versions):
            stack.enter_context(mock.patch.object(module, "time", SimpleNamespace(monotonic=lambda: host.now.mono)))
        stack.enter_context(mock.patch.object(remembering, "now", side_effect=lambda: host.now))
        yield


def play(noise: list[Noise], reals: list[Real]) -> None:
    host = Host(noise, reals)
    with clock_of(host), contextlib.closing(asyncio.new_event_loop()) as loop:
        Day(host, loop).run()


KINDS = DRIVER_KINDS + TOOL_KINDS + AGENT_KINDS
CHIP = st.none() | st.sampled_from(PHYS)
NOISE = st.lists(
    st.builds(
        Noise,
        kind=st.sampled_from(KINDS),
        start=st.floats(60, DAY_S - 1000).map(round),
        length=st.sampled_from((6.0, 20.0, 60.0, 300.0, 900.0)),
        chip=CHIP,
        seed=st.integers(0, 1000),
    ),
    min_size=10,
    max_size=18,
)
REALS = st.lists(
    st.builds(
        Real,
        phy=st.sampled_from(PHYS),
        code=st.sampled_from((*PLAIN, "link")),
        start=st.floats(60, DAY_S - 5000).map(round),
        length=st.sampled_from((30.0, 400.0, 5000.0)),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda real: (real.phy, real.code),
)
"""One link at most goes down on each chip: five times in a day is another fault, and a right one."""
CI = settings(max_examples=4, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
ALL_AT_ONCE = [Noise(kind, 3600.0 + 40 * n, 900.0, None, n) for n, kind in enumerate(KINDS)]
"""Every kind of trouble, each over the others."""
CLOCK_SET_BACK = [Noise("clock", 30_000.0, 6.0, None, 6), Noise("restart", 30_100.0, 6.0, None, 0)]
"""To a time at which ports were flapping, and then a new process."""


@CI
@given(noise=NOISE)
@example(noise=ALL_AT_ONCE)
@example(noise=CLOCK_SET_BACK)
def test_a_day_of_noise_raises_nothing(noise: list[Noise]) -> None:
    play(noise, [])


@CI
@given(noise=NOISE, reals=REALS)
@example(noise=ALL_AT_ONCE, reals=[Real(0, "80E18402", 3000.0, 5000.0), Real(1, "link", 3650.0, 400.0)])
def test_under_the_same_noise_a_fault_is_told_at_the_first_good_look_and_stays_until_it_has_gone(
    noise: list[Noise], reals: list[Real]
) -> None:
    play(noise, reals)
