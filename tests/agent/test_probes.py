"""Probes: found by a scan, isolated from each other, and never silent about what they cannot see."""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import pytest

from agent import probes
from agent.config import AgentConfig, Inventory, Paths
from agent.detect.readings import ChipIdentity
from agent.metrics import Metrics
from agent.peer_book import PeerBook
from agent.pods import HeldChips
from agent.probe import CannotLook, NoDriver, Observation, Sensors
from agent.probes.chip_health import ChipHealth
from agent.probes.runtime import SOCKETS
from agent.runner import Runner
from agent.sensors.gauges import Measured
from agent.sensors.hccn import Hccn
from agent.sensors.kubelet import PodDevices
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from console.lab.host import SimHost
from shared.aio import Ticks, periodic, running
from tests.waiting import eventually


class Looks:
    """A probe that does what it is told."""

    period_s, timeout_s = 0.05, 0.2

    def __init__(self, name: str, error: BaseException | None = None, *, hangs: bool = False) -> None:
        self.name = name
        self.error, self.hangs = error, hangs
        self.count = 0

    async def look(self) -> Observation:
        self.count += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return Observation(links=())


class Told:
    def __init__(self) -> None:
        self.seen: dict[str, list[tuple[Observation | None, str | None]]] = {}

    def __call__(self, probe: str, seen: Observation | None, why: str | None) -> None:
        self.seen.setdefault(probe, []).append((seen, why))


async def test_a_bug_or_hang_of_one_probe_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    good, buggy, blind = Looks("good"), Looks("buggy", KeyError("x")), Looks("blind", CannotLook("no tool"))
    hanging = Looks("hanging", hangs=True)
    told, ticks, metrics = Told(), Ticks(), Metrics()
    runner = Runner([good, buggy, blind, hanging], told, ticks=ticks, metrics=metrics)
    async with running(runner.run()):
        await eventually("three looks of each", lambda: min(good.count, buggy.count, blind.count, hanging.count) >= 3)
        status = {one.name: one for one in runner.status()}
    assert told.seen["good"][0] == (Observation(links=()), None)
    assert told.seen["blind"][0] == (None, "no tool")
    assert told.seen["hanging"][0] == (None, "no answer within 0.2 s")
    assert told.seen["buggy"][0] == (None, "bug in the probe: KeyError: 'x'")
    assert (status["good"].error, status["blind"].error) == (None, "no tool")
    assert status["hanging"].took_s >= 0.2
    assert ticks.late() == []
    errors = metrics.registry.get_sample_value("npuwarden_agent_probe_errors_total", {"probe": "buggy"})
    assert errors is not None
    assert errors >= 3
    assert len([record for record in caplog.records if "blind cannot look" in record.message]) == 1, "said once"


async def test_the_jitter_of_a_loop_makes_it_come_round_sooner_and_never_later() -> None:
    """The documents promise the period as the longest time between two looks."""
    rounds: list[float] = []

    async def work() -> None:
        rounds.append(time.monotonic())

    async with running(periodic(work, period_s=0.1, jitter=0.9, ticks=Ticks(), name="x")):
        await eventually("twenty rounds", lambda: len(rounds) >= 20)
    assert rounds[19] - rounds[0] < 0.85 * 19 * 0.1, "the mean is 0.55 of the period"


async def test_recovery_of_a_probe_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "agent")
    probe = Looks("p", CannotLook("no tool"))
    runner = Runner([probe], Told(), ticks=Ticks(), metrics=Metrics())
    await runner.look(probe)
    probe.error = None
    await runner.look(probe)
    assert "probe p can look again" in caplog.text
    assert runner.status()[0].error is None


def sensors(host: SimHost, *, hccn: bool) -> Sensors:
    chips = NoDriver("none")
    chips.enumeration = Enumeration({phy: ChipFacts((phy, 0), ChipIdentity(phy)) for phy in range(8)})
    return Sensors(chips, PciBus(host.sysfs), Hccn(host.hccn_tool, lock=None) if hccn else None)


class NoGauges:
    async def measure(self, what: str) -> tuple[Measured, ...] | None:
        return None


def test_every_file_of_the_package_is_a_probe_of_its_own(host: SimHost, tmp_path: Path) -> None:
    """On hosts that have something for each of them; ports are asked in another dialect on the 950."""
    (tmp_path / "kubelet/pods").mkdir(parents=True)
    (host.sysfs / "class/net").mkdir(parents=True)
    (tmp_path / "kmsg").touch()
    (tmp_path / "proc/1/root" / SOCKETS[0]).mkdir(parents=True)
    paths = Paths(
        kubelet_dir=str(tmp_path / "kubelet"),
        sysfs=str(host.sysfs),
        kmsg=str(tmp_path / "kmsg"),
        procfs=str(tmp_path / "proc"),
    )
    pods = HeldChips(PodDevices(tmp_path / "kubelet"))
    everything = msgspec.structs.replace(sensors(host, hccn=True), gauges=NoGauges(), peers=PeerBook(), pods=pods)
    found = probes.load(AgentConfig(paths=paths), everything)
    everything.bus.generation = "950"
    only = {"ub_ports", "roce_ports"}
    found += [probe for probe in probes.load(AgentConfig(paths=paths), everything) if probe.name in only]
    files = {path.stem for path in Path(probes.__file__).parent.glob("*.py")} - {"__init__"}
    assert {probe.name for probe in found} == files
    assert "link_state" not in {probe.name for probe in probes.load(AgentConfig(), sensors(host, hccn=False))}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param('"""Looks at nothing."""\n', "has no function make", id="no make"),
        pytest.param("def make(config, sensors):\n    return None\n", "no docstring", id="no word on what it looks at"),
        pytest.param(
            '"""Doubles another."""\nfrom agent.probes.chip_health import make\n',
            "'chip_health' already",
            id="a double",
        ),
    ],
)
def test_a_file_that_is_no_probe_stops_the_start(
    host: SimHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "zz_bad.py").write_text(text)
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "agent.probes.zz_bad", raising=False)
    with pytest.raises(probes.BadProbe, match=said):
        probes.load(AgentConfig(), sensors(host, hccn=False))
    sys.modules.pop("agent.probes.zz_bad", None)


async def test_a_probe_that_cannot_be_made_is_blind_and_stops_no_other(
    host: SimHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "zz_fails.py").write_text('"""Fails."""\ndef make(config, sensors):\n    raise KeyError("x")\n')
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    made = {probe.name: probe for probe in probes.load(AgentConfig(), sensors(host, hccn=False))}
    sys.modules.pop("agent.probes.zz_fails", None)
    assert {"chip_health", "card_lost"} < made.keys()
    with pytest.raises(CannotLook, match="bug in the probe: it could not be set up: KeyError: 'x'"):
        await made["zz_fails"].look()
    assert "probe zz_fails" in caplog.text


async def test_links_of_all_chips(host: SimHost) -> None:
    host.link(4, up=False)
    (probe,) = [one for one in probes.load(AgentConfig(), sensors(host, hccn=True)) if one.name == "link_state"]
    links = (await probe.look()).links
    assert links is not None
    assert {link.phy: link.up for link in links} == {phy: phy != 4 for phy in range(8)}


async def test_a_change_on_the_bus_has_the_driver_enumerated_anew(host: SimHost) -> None:
    class Chips(NoDriver):
        renewed = 0

        def renew(self) -> None:
            self.renewed += 1

    chips = Chips("none")
    (probe,) = [
        one for one in probes.load(AgentConfig(), Sensors(chips, PciBus(host.sysfs))) if one.name == "card_lost"
    ]
    await probe.look()
    await probe.look()
    assert chips.renewed == 0
    host.drop(2)
    await probe.look()
    assert chips.renewed == 1


async def test_a_bus_that_cannot_be_read_is_not_an_empty_bus(tmp_path: Path) -> None:
    made = probes.load(AgentConfig(), Sensors(NoDriver("none"), PciBus(tmp_path)))
    (probe,) = [one for one in made if one.name == "card_lost"]
    with pytest.raises(CannotLook, match="PCI bus"):
        await probe.look()


async def test_a_silent_driver_is_a_reading_and_a_trouble() -> None:
    told = Told()
    runner = Runner([], told, ticks=Ticks(), metrics=Metrics())
    await runner.look(ChipHealth(5, Sensors(NoDriver("no library"), PciBus(Path("/nowhere"))), Inventory()))
    ((seen, why),) = told.seen["chip_health"]
    assert seen is not None
    assert seen.driver is not None
    assert seen.driver.silent == why == "no library"
    assert runner.status()[0].error == "no library"
