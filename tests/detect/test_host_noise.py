"""A day of noise around the host itself raises nothing: its probes and detection are the real ones, the files they
read are real too, the clocks are not.

Not here: `kubelet` and `runtime`, which ask a socket (a run of failures is a Streak, as in the probes that are here),
and `host_disk`, whose source is the disk under this test.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent import remembering
from agent.config import AgentConfig, Paths
from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.settings import DetectSettings
from agent.probe import Probe, Sensors
from agent.probes import card_lost, host_memory, kmsg, nic_carrier, pcie, stale_process
from agent.remembering import recall, remember
from agent.sensors.holders import Holder, NotTheHost
from agent.sensors.nics import Nic
from agent.sensors.pci import PciBus
from shared.model import NODE, Instant
from shared.names import CODE_PROBE_FAILING
from tests.detect.bench import CATALOGUE
from tests.detect.noise import CHIPS, DAY_S, WHO, Noise, look_once

pytestmark = pytest.mark.slow

KINDS = ("bus", "counters", "link", "kmsg", "log gone", "nics", "memory", "pods", "proc", "restart", "reboot", "clock")
CALM_S = 7200.0
"""Longer than every window."""
MB = 1 << 20
ALIVE = "11111111-2222-3333-4444-555555555555"
CHATTER = (
    "usb 1-1: new high-speed USB device",
    "[ascend] [INFO] [devdrv] [probe 1] <k:1:1> all is well",
    "EXT4-fs (sda1): mounted filesystem",
    "no record at all",
    "",
)
AER = {"aer_dev_fatal": "TOTAL_ERR_FATAL 3", "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 40"}
"""Of a bad morning before the agent: history."""
WIDTH, SPEED = "16", "16.0 GT/s PCIe"
LINK = {
    f"{which}_link_{name}": is_ for which in ("current", "max") for name, is_ in (("width", WIDTH), ("speed", SPEED))
}


class Host:
    """A host that is well, in a directory, and what is wrong with looking at it. Times are seconds since the start."""

    def __init__(self, directory: Path, noise: Sequence[Noise]) -> None:
        self.noise, self.t = noise, 0.0
        self._ahead, self._boot_at, self._seq = 0.0, -50_000.0, 0
        self.sysfs, self.log, self.pods = directory / "sys", directory / "kmsg", directory / "pods"
        self.devices = self.sysfs / "bus/pci/devices"
        for who in WHO.values():
            device = self.devices / str(who.pci).lower()
            device.mkdir(parents=True)
            for name, text in {"vendor": "0x19e5", "device": "0xd802", **AER, **LINK}.items():
                (device / name).write_text(text)
        (self.pods / ALIVE).mkdir(parents=True)
        self.log.write_text("")
        for text in ("Out of memory: Killed process 42 (python) total-vm:1kB, anon-rss:1kB, file-rss:1kB", *CHATTER):
            self.prints(text, ago_s=20_000.0)

    @property
    def now(self) -> Instant:
        return Instant(mono=self.t - self._boot_at, wall=1_800_000_000.0 + self.t + self._ahead)

    def on(self, kind: str) -> Noise | None:
        return next((one for one in self.noise if one.kind == kind and one.on(self.t)), None)

    def prints(self, text: str, *, ago_s: float = 0.0) -> None:
        with self.log.open("a") as log:
            log.write(f"6,{self._seq},{int((self.now.mono - ago_s) * 1e6)},-;{text}\n" if text else "\n \0broken\n")
        self._seq += 1

    def reboot(self) -> None:
        self._boot_at, self._seq = self.t - 30.0, 0
        self.log.write_text("")

    def jump(self, dice: random.Random) -> None:
        self._ahead += dice.uniform(-10, 10) * 3600

    def arrange(self, dice: random.Random) -> None:
        """The files as they are at this moment."""
        hidden = self.devices.with_name("away")
        if self.on("bus") and self.devices.exists():
            self.devices.rename(hidden)
        elif not self.on("bus") and hidden.exists():
            hidden.rename(self.devices)
        if self.on("bus"):
            return
        first = self.devices / str(WHO[0].pci).lower()
        garbage = dice.choice(("", "TOTAL_ERR_FATAL many", "\0"))
        (first / "aer_dev_fatal").write_text(garbage if self.on("counters") else AER["aer_dev_fatal"])
        (first / "current_link_width").write_text(
            dice.choice(("0", "63", "255", "Unknown")) if self.on("link") else "16"
        )
        if self.on("kmsg"):
            for _ in range(dice.choice((1, 5, 300))):
                self.prints(dice.choice(CHATTER), ago_s=dice.choice((0.0, 5.0)))

    # What the probes are given to read by.

    def nics(self) -> list[Nic]:
        if self.on("nics"):
            raise OSError(16, "netlink: busy")
        cards = [Nic("eth0", enabled=True, carrier=True, ups=9, downs=8), Nic("eth1", False, False, 0, 0)]
        return [*cards, Nic("veth", True, False, ups=1, downs=1, hardware=False)]

    def memory(self) -> tuple[int, int]:
        if self.on("memory"):
            raise OSError(5, "meminfo")
        return 1000 * MB, 300 * MB

    def holders(self) -> list[Holder]:
        """Under `pods` one look sees a process of a pod that has just been removed; the next does not."""
        if trouble := self.on("proc"):
            raise NotTheHost("/proc is hidden") if trouble.seed % 2 else OSError(5, "proc")
        gone = [Holder(7, "python", "99999999-2222-3333-4444-555555555555", (1,))]
        return [Holder(6, "python", ALIVE, (0,)), *(gone if self.on("pods") and int(self.t / 60) % 2 else [])]


class Agent:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.start(None)

    def start(self, memory: DetectorMemory | None) -> None:
        host, config = self.host, AgentConfig(paths=Paths(sysfs=str(self.host.sysfs), kmsg=str(self.host.log)))
        bus = PciBus(host.sysfs)
        bus.look()
        sensors = Sensors(CHIPS, bus)
        limits = config.probes
        made: list[Probe | None] = [
            card_lost.make(config, sensors),
            pcie.make(config, sensors),
            kmsg.make(config, sensors),
            nic_carrier.NicCarrier(10.0, host.nics, flaps=limits.nic_carrier.flaps, window_s=3600.0),
            host_memory.HostMemory(10.0, host.memory, available_pct=limits.host_memory.available_pct),
            stale_process.StaleProcess(sensors, host.holders, host.pods, looks=limits.stale_process.looks),
        ]
        self.probes = [probe for probe in made if probe is not None]
        assert len(self.probes) >= len(made) - 1, "pcie alone cannot be made while the bus is not there"
        self.detector = Detector(CATALOGUE, DetectSettings(), memory)
        self.detector.forget_probes({probe.name for probe in self.probes}, host.now)
        self.next_look: dict[str, float] = {}

    def restart(self, *, reboot: bool) -> None:
        saved = msgspec.json.encode(self.detector.memory(self.host.now)), remember(self.probes)
        self.host.t += 3.0
        if reboot:
            self.host.reboot()
        now = self.host.now
        self.start(msgspec.json.decode(saved[0], type=DetectorMemory).rebased(now, same_boot=not reboot))
        recall(self.probes, saved[1], now, same_boot=not reboot)

    async def look(self) -> None:
        for probe in self.probes:
            if self.host.t < self.next_look.get(probe.name, 0.0):
                continue
            self.next_look[probe.name] = self.host.t + probe.period_s
            await look_once(self.detector, probe, lambda: self.host.now)


def moments(noise: Sequence[Noise]) -> Iterator[float]:
    """Every 10 s around what happens, seldom in quiet hours."""
    busy = sorted((one.start - 20, one.start + one.length + 60) for one in noise)
    t, end = 0.0, DAY_S + CALM_S
    while t < end:
        yield t
        near = any(start <= t <= stop for start, stop in busy)
        t = t + 10.0 if near else min([t + 600.0, *(start for start, _ in busy if start > t)])


async def day(host: Host) -> None:
    agent = Agent(host)
    begun: set[int] = set()
    for t in moments(host.noise):
        host.t = max(t, host.t)
        dice = random.Random(f"{host.t}")
        for number, one in enumerate(host.noise):
            if one.on(host.t) and number not in begun and one.kind in ("restart", "reboot", "clock"):
                begun.add(number)
                if one.kind == "clock":
                    host.jump(dice)
                else:
                    agent.restart(reboot=one.kind == "reboot")
        host.arrange(dice)
        if host.on("log gone"):
            host.log.unlink(missing_ok=True)
        elif not host.log.exists():
            host.log.write_text("")
        await agent.look()
        agent.detector.tick(host.now)
        found = {fault.id for fault in agent.detector.view(host.now).faults}
        assert found <= {f"{CODE_PROBE_FAILING}@{NODE}"}, f"at {host.t:.0f} s: {found}"
    view = agent.detector.view(host.now)
    assert (view.faults, view.unknown) == ((), ())


def play(noise: list[Noise]) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        host = Host(Path(directory), noise)
        for module in (pcie, nic_carrier):
            stack.enter_context(mock.patch.object(module, "time", SimpleNamespace(monotonic=lambda: host.now.mono)))
        for module in (pcie, kmsg, remembering):
            stack.enter_context(mock.patch.object(module, "now", side_effect=lambda: host.now))
        asyncio.run(day(host))


NOISE = st.lists(
    st.builds(
        Noise,
        kind=st.sampled_from(KINDS),
        start=st.floats(60, DAY_S - 1000).map(round),
        length=st.sampled_from((10.0, 60.0, 300.0)),
        chip=st.none(),
        seed=st.integers(0, 1000),
    ),
    min_size=8,
    max_size=14,
)


@settings(max_examples=4, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(noise=NOISE)
@example(noise=[Noise(kind, 3600.0 + 40 * n, 600.0, None, n) for n, kind in enumerate(KINDS)])
def test_a_day_of_noise_around_the_host_raises_nothing(noise: list[Noise]) -> None:
    play(noise)
