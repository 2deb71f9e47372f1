"""A look that hangs in the kernel, as on a dead disk: it costs its own probe, never the agent."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import fault_config
from agent.detect.detector import Detector
from agent.detect.readings import ChipIdentity
from agent.detect.settings import DetectSettings
from agent.fault_config import FaultConfig
from agent.limits import Kubelet as KubeletLimits
from agent.metrics import Metrics
from agent.own_thread import OwnThread
from agent.probe import CannotLook, NoDriver, Observation, Probe, Sensors
from agent.probes.card_lost import CardLost
from agent.probes.host_disk import HostDisk
from agent.probes.kubelet import Kubelet
from agent.probes.nic_carrier import NicCarrier
from agent.probes.pcie import Pcie
from agent.probes.stale_process import StaleProcess
from agent.runner import Runner
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from shared import catalog
from shared.aio import Ticks, running
from tests.process import free_ports
from tests.waiting import eventually

LOOKS = 60
"""More than any pool of threads that the looks could fill."""


@pytest.fixture
def disk() -> Iterator[threading.Event]:
    """Set: the disk answers again."""
    answers = threading.Event()
    yield answers
    answers.set()


def host_disk(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    statvfs = os.statvfs

    def hangs(place: Any) -> os.statvfs_result:
        disk.wait()
        return statvfs(place)

    monkeypatch.setattr(os, "statvfs", hangs)
    return HostDisk(10, [path], used_pct=100)


def nic_carrier(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    return NicCarrier(10, lambda: [] * disk.wait(), flaps=3, window_s=3600)


def stale_process(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    sensors = Sensors(NoDriver(""), PciBus(path))
    return StaleProcess(sensors, lambda: [] * disk.wait(), path, looks=2)


def hanging_file(disk: threading.Event, path: Path, text: str) -> None:
    """Opening a FIFO waits for its writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)

    def writes() -> None:
        disk.wait()
        with path.open("w"):  # lets the look in flight go, which then reads nothing
            answers = path.with_name("answers")
            answers.write_text(text)
            answers.replace(path)

    threading.Thread(target=writes, daemon=True).start()


def card_lost(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    hanging_file(disk, path / "bus/pci/devices/0000:c1:00.0/vendor", "0x19e5")
    return CardLost(10, Sensors(NoDriver(""), PciBus(path)))


def pcie(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    function = path / "bus/pci/devices/0000:c1:00.0"
    hanging_file(disk, function / "aer_dev_fatal", "TOTAL_ERR_FATAL 0")
    (function / "vendor").write_text("0x19e5")
    (function / "device").write_text("0xd802")
    driver, bus = NoDriver(""), PciBus(path)
    driver.enumeration = Enumeration({0: ChipFacts((0, 0), ChipIdentity(0, pci="0000:C1:00.0"))})
    bus.look()
    return Pcie(10, Sensors(driver, bus), function.parent, nonfatal=1, window_s=60)


def kubelet(disk: threading.Event, path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Nothing listens, so it looks for a process of that name."""
    hanging_file(disk, path / "1/comm", "kubelet\n")
    return Kubelet(10, path, KubeletLimits(url=f"http://127.0.0.1:{free_ports(1)[0]}/healthz", timeout_s=1.0))


class Told:
    def __init__(self) -> None:
        self.whys: list[str | None] = []

    def __call__(self, probe: str, seen: Observation | None, why: str | None) -> None:
        self.whys.append(why)


@pytest.mark.parametrize("make", [host_disk, nic_carrier, stale_process, kubelet, card_lost, pcie])
async def test_many_looks_that_hang_take_one_thread_and_leave_the_resolver_alone(
    make: Callable[[threading.Event, Path, pytest.MonkeyPatch], Probe],
    disk: threading.Event,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe, told = make(disk, tmp_path, monkeypatch), Told()
    probe.timeout_s = 0.2
    runner = Runner([probe], told, ticks=Ticks(), metrics=Metrics())
    before = threading.active_count()
    for _ in range(LOOKS):
        await runner.look(probe)
    assert threading.active_count() - before <= 1
    assert told.whys[0] == "no answer within 0.2 s"
    assert all(why and "still hangs" in why for why in told.whys[1:])
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().getaddrinfo("localhost", 6379)
    disk.set()

    probe.period_s = 0.05
    async with running(runner.run()):
        await eventually("it looks again", lambda: told.whys[-1] is None)


async def test_a_disk_that_hangs_under_the_fault_files_changes_no_rule_and_is_said_once(
    disk: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fault_config, "PATIENCE_S", 0.2)
    detector = Detector(catalog.load(), DetectSettings())
    config = FaultConfig(tmp_path, detector, Metrics())
    (tmp_path / "faultCode.json").write_text('{"SubHealthFaultCodes": ["80E18402"]}')
    assert await config.refresh()
    assert len(config.overrides()) == 1
    listdir = os.listdir
    with monkeypatch.context() as hanging:
        hanging.setattr(os, "listdir", lambda place: listdir(place) if disk.wait() else [])
        before = threading.active_count()
        for _ in range(5):
            assert not await config.refresh()
        assert threading.active_count() - before <= 1
    assert len(config.overrides()) == 1
    assert [one.why.startswith("cannot be read (no answer within") for one in config.bad_entries()] == [True]
    assert caplog.text.count("no answer within") == 1
    disk.set()

    async def keeps_looking() -> None:
        while True:
            await config.refresh()
            await asyncio.sleep(0.02)

    async with running(keeps_looking()):
        await eventually("the disk answers again", lambda: not config.bad_entries())
    assert len(config.overrides()) == 1


async def test_fault_files_are_parsed_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest that a ConfigMap has room for takes a second."""
    threads: list[int] = []
    loads = json.loads

    def observed(*args: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return loads(*args, **options)

    monkeypatch.setattr(json, "loads", observed)
    config = FaultConfig(tmp_path, Detector(catalog.load(), DetectSettings()), Metrics())
    (tmp_path / "faultCode.json").write_text('{"SubHealthFaultCodes": ["80E18402"]}')
    assert await config.refresh()
    assert len(config.overrides()) == 1
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


ENDS = """
import asyncio, os, signal, threading
from pathlib import Path
from agent.metrics import Metrics
from agent.probes.host_disk import HostDisk
from agent.runner import Runner
from shared.aio import Ticks, running

os.statvfs = lambda place: threading.Event().wait()

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    probe = HostDisk(0.05, [Path("/")], used_pct=95)
    probe.timeout_s = 0.05
    def told(probe, seen, why):
        if "still hangs" in why:
            print("hangs", flush=True)
    async with running(Runner([probe], told, ticks=Ticks(), metrics=Metrics()).run()):
        await stop.wait()

asyncio.run(main())
"""


def test_a_process_whose_look_hangs_still_ends_at_sigterm() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "hangs\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()


async def test_what_the_work_raises_is_raised_and_the_next_look_is_free() -> None:
    thread = OwnThread("disk")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: 7) == 7


async def test_a_look_in_flight_is_told_with_its_age(disk: threading.Event) -> None:
    thread = OwnThread("disk")
    first = asyncio.create_task(thread.run(disk.wait))
    await eventually("it runs", lambda: thread.since is not None)
    with pytest.raises(CannotLook, match=r"the last look \(disk\) still hangs, for \d+ s"):
        await thread.run(disk.wait)
    disk.set()
    assert await first
