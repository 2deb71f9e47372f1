"""Which pods hold which chips: read off the loop, told when it cannot be, and never waited for twice."""

import asyncio
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from agent import pods as pods_module
from agent.config import AgentConfig, Paths
from agent.detect.detector import Detector
from agent.detect.settings import DetectSettings
from agent.metrics import Metrics
from agent.pods import HeldChips
from agent.probe import CannotLook, NoDriver, Probe, Sensors
from agent.probes import pod_devices
from agent.runner import Runner
from agent.sensors.kubelet import CHECKPOINT, PodDevices
from agent.sensors.pci import PciBus
from shared import catalog
from shared.aio import Ticks, now, running
from tests.waiting import eventually

PAUSE_S = 0.3


def checkpoint(uid: str) -> bytes:
    entry = {"PodUID": uid, "ResourceName": "huawei.com/Ascend910", "DeviceIDs": ["Ascend910-2"]}
    return msgspec.json.encode({"Data": {"PodDeviceEntries": [entry]}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / CHECKPOINT
    path.parent.mkdir()
    path.write_bytes(checkpoint("a"))
    return path


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldChips:
    monkeypatch.setattr(pods_module, "PATIENCE_S", PAUSE_S)
    return HeldChips(PodDevices(tmp_path))


def write(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)


def make_hang(path: Path) -> None:
    """Opening it waits for a writer, as reading waits for a dead disk."""
    path.unlink()
    os.mkfifo(path)


def answer_again(path: Path, raw: bytes) -> None:
    """The look in flight reads nothing, the next one `raw`."""
    waiting = path.rename(path.with_name("old"))
    path.write_bytes(raw)
    waiting.write_text("")


async def keeps_looking(held: HeldChips) -> None:
    while True:
        await held.look()
        await asyncio.sleep(0.02)


def probe(held: HeldChips, directory: Path) -> Probe:
    config = AgentConfig(paths=Paths(kubelet_dir=str(directory)))
    made = pod_devices.make(config, Sensors(NoDriver(""), PciBus(directory), pods=held))
    assert made is not None
    return made


async def test_a_kubelets_disk_that_hangs_holds_up_one_look_and_is_told(
    path: Path, held: HeldChips, tmp_path: Path
) -> None:
    await held.look()
    assert (held.pods, held.error) == ({2: ("a",)}, None)
    make_hang(path)
    await held.look()
    assert held.error is not None
    assert "did not answer" in held.error
    began = time.monotonic()
    for _ in range(50):
        await held.look()
    assert time.monotonic() - began < 50 * PAUSE_S / 2, "the next ones wait for nothing"
    assert "still hangs" in held.error
    assert held.pods == {2: ("a",)}
    with pytest.raises(CannotLook, match=r"still hangs.*stays as it was"):
        await probe(held, tmp_path).look()
    assert sum(thread.name.startswith("look at the kubelet's device") for thread in threading.enumerate()) == 1

    answer_again(path, checkpoint("b"))
    async with running(keeps_looking(held)):
        await eventually("the new file", lambda: held.pods == {2: ("b",)} and held.error is None)


async def test_what_cannot_be_read_is_an_unknown_of_the_node_and_counted(
    path: Path, held: HeldChips, tmp_path: Path
) -> None:
    metrics, detector = Metrics(), Detector(catalog.load(), DetectSettings())
    one = probe(held, tmp_path)
    runner = Runner(
        [one], lambda name, _seen, why: detector.node_blind(name, why, now()), ticks=Ticks(), metrics=metrics
    )
    await runner.look(one)
    assert not detector.view(now()).unknown
    write(path, checkpoint("b")[:-7])
    await runner.look(one)
    (unknown,) = detector.view(now()).unknown
    assert (unknown.chip, unknown.probe) == ("node", "pod_devices")
    assert metrics.registry.get_sample_value("npuwarden_agent_probe_errors_total", {"probe": "pod_devices"}) == 1
    assert runner.details()[0].error is not None
    write(path, checkpoint("b"))
    await runner.look(one)
    assert not detector.view(now()).unknown


def test_a_file_that_is_back_unchanged_is_no_trouble_any_more(path: Path, tmp_path: Path) -> None:
    devices = PodDevices(tmp_path)
    devices.refresh()
    away = path.rename(path.with_name("away"))
    path.symlink_to(path.name)  # ELOOP
    devices.refresh()
    errors = [devices.error]
    away.replace(path)
    devices.refresh()
    errors.append(devices.error)
    assert [error is None for error in errors] == [False, True]
    assert devices.pods == {2: ("a",)}


async def test_looks_at_the_same_time_are_one_after_the_other(path: Path, held: HeldChips) -> None:
    await asyncio.gather(*(held.look() for _ in range(20)))
    assert (held.pods, held.error) == ({2: ("a",)}, None)


async def test_a_look_that_is_cancelled_leaves_the_next_ones_alone(path: Path, held: HeldChips) -> None:
    task = asyncio.create_task(held.look())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with running(keeps_looking(held)):
        await eventually("a good look", lambda: held.pods == {2: ("a",)} and held.error is None)


def test_a_host_without_a_kubelet_has_nothing_to_look_at(tmp_path: Path) -> None:
    sensors = Sensors(NoDriver(""), PciBus(tmp_path), pods=HeldChips(PodDevices(tmp_path / "none")))
    assert pod_devices.make(AgentConfig(paths=Paths(kubelet_dir=str(tmp_path / "none"))), sensors) is None
