"""What is read from files of the host: PCI bus, kubelet checkpoint, fault-code files, boot id, the library."""

import os
from pathlib import Path

import msgspec
import pytest

from agent import fault_files
from agent.config import AgentConfig, Paths
from agent.detect.detector import Detector
from agent.fault_config import FaultConfig
from agent.fault_files import FaultFiles, look
from agent.host import boot_id, open_host
from agent.metrics import Metrics
from agent.sensors.dcmi_library import find_library
from agent.sensors.kubelet import CHECKPOINT, PodDevices, parse_checkpoint
from agent.sensors.pci import PciBus
from shared import catalog
from tests.agent.conftest import MakeHost


def device(sysfs: Path, address: str, vendor: str, kind: str) -> None:
    directory = sysfs / "bus/pci/devices" / address
    directory.mkdir(parents=True)
    (directory / "vendor").write_text(f"{vendor}\n")
    (directory / "device").write_text(f"{kind}\n")


def test_the_bus_has_the_npus_and_nothing_else(tmp_path: Path) -> None:
    device(tmp_path, "0000:c1:00.0", "0x19e5", "0xd802")
    device(tmp_path, "0000:02:00.0", "0x19e5", "0xd802")
    device(tmp_path, "0000:7d:00.0", "0x19e5", "0xa222")  # a network card of the same vendor
    device(tmp_path, "0000:00:1f.0", "0x8086", "0xd802")
    (tmp_path / "bus/pci/devices/0000:ff:00.0").mkdir()
    bus = PciBus(tmp_path)
    assert bus.look() == frozenset({"0000:C1:00.0", "0000:02:00.0"})
    assert bus.generation == "910B"


def test_a_bus_that_cannot_be_read_is_unknown_and_not_empty(tmp_path: Path) -> None:
    bus = PciBus(tmp_path / "nowhere")
    assert bus.look() is None
    assert bus.npus is None
    assert "nowhere" in (bus.error or "")


def checkpoint(*entries: dict[str, object]) -> bytes:
    return msgspec.json.encode({"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": {}}, "Checksum": 1})


def entry(uid: str, resource: str, ids: object) -> dict[str, object]:
    return {"PodUID": uid, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": ids, "AllocResp": "Cg=="}


def test_pods_of_chips_in_both_forms_of_the_checkpoint() -> None:
    raw = checkpoint(
        entry("uid-a", "huawei.com/Ascend910", {"-1": ["Ascend910-3"], "1": ["Ascend910-12"]}),
        entry("uid-b", "huawei.com/npu", ["npu-3", "npu-0"]),
        entry("uid-c", "nvidia.com/gpu", ["GPU-1"]),
        entry("uid-d", "huawei.com/Ascend910-2c", {"0": ["Ascend910-2c-100-1"]}),
        entry("uid-e", "huawei.com/Ascend910", None),
    )
    assert parse_checkpoint(raw) == {3: ("uid-a", "uid-b"), 12: ("uid-a",), 0: ("uid-b",)}


def test_a_missing_checkpoint_is_no_mapping_and_a_broken_one_keeps_the_last(tmp_path: Path) -> None:
    pods = PodDevices(tmp_path)
    assert not pods.refresh()
    assert not pods.pods
    assert pods.error is None
    path = tmp_path / CHECKPOINT
    path.parent.mkdir()
    path.write_bytes(checkpoint(entry("uid", "huawei.com/Ascend910", ["Ascend910-1"])))
    assert pods.refresh()
    assert not pods.refresh(), "unchanged"
    path.write_bytes(b'{"Data": {')
    assert not pods.refresh()
    assert pods.pods == {1: ("uid",)}
    assert pods.error is not None
    path.unlink()
    assert pods.refresh()
    assert not pods.pods
    assert pods.error is None


def test_only_new_contents_of_fault_files_are_told(tmp_path: Path) -> None:
    files = FaultFiles(tmp_path)
    assert files.changed(look(tmp_path)) == {}
    (tmp_path / "faultCode.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("no json")
    assert files.changed(look(tmp_path)) == {"faultCode.json": "{}"}
    assert files.changed(look(tmp_path)) == {}
    os.utime(tmp_path / "faultCode.json", (1, 1))
    assert files.changed(look(tmp_path)) == {}, "the time alone is no change"
    (tmp_path / "faultCode.json").unlink()
    (tmp_path / "faultCustomization.json").write_text("[]")
    assert files.changed(look(tmp_path)) == {"faultCode.json": None, "faultCustomization.json": "[]"}
    (tmp_path / "faultCustomization.json").write_bytes(b"\xff")
    assert files.changed(look(tmp_path)) == {}, "unreadable: what it said before stays"


def test_what_cannot_be_read_says_why_and_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither is a file lost with its directory, nor is a pipe waited for."""
    directory = tmp_path / "faults"
    directory.mkdir()
    files = FaultFiles(directory)
    (directory / "faultCode.json").write_text("{}")
    os.mkfifo(directory / "pipe.json")
    with (directory / "huge.json").open("wb") as huge:
        huge.truncate(fault_files.MAX_BYTES + 1)
    (directory / "dangling.json").symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        files.changed(look(directory))
    assert {name: why.split()[0] for name, why in files.unreadable.items()} == {
        "dangling.json": "No",
        "huge.json": "more",
        "pipe.json": "not",
    }
    assert len(caplog.records) == 3, "each is said once"
    directory.rename(tmp_path / "away")
    directory.write_text("no directory")
    assert files.changed(look(directory)) == {}, "a directory that cannot be listed keeps its files"
    assert list(files.unreadable) == [str(directory)]
    directory.unlink()
    assert files.changed(look(directory)) == {"faultCode.json": None}, "one that is gone has none"
    assert not files.unreadable


async def test_bad_entries_are_counted_by_file_and_a_file_that_is_gone_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    detector = Detector(catalog.load(), AgentConfig().debounce)
    config = FaultConfig(tmp_path, detector, metrics)

    def counted() -> dict[str, float]:
        samples = next(iter(metrics.config_bad_entries.collect())).samples
        return {sample.labels["file"]: sample.value for sample in samples}

    (tmp_path / "faultCode.json").write_text('{"RestartNPUCodes": ["80E18402", "?", 7]}')
    (tmp_path / "faultCustomization.json").write_text("{}")
    (tmp_path / "NodeDConfiguration.json").write_text("{}")
    (tmp_path / "pipe.json").mkdir()
    assert await config.refresh()
    assert counted() == {
        "NodeDConfiguration.json": 1,
        "faultCode.json": 2,
        "faultCustomization.json": 0,
        "pipe.json": 1,
    }
    assert [name for name, in_force in config.files() if in_force] == ["faultCode.json", "faultCustomization.json"]
    assert not await config.refresh()
    (tmp_path / "faultCode.json").unlink()
    assert await config.refresh()
    assert "faultCode.json is gone; the built-in levels and rules hold again" in caplog.text
    assert "faultCode.json" not in counted()


def test_the_boot_id_is_the_kernels(tmp_path: Path) -> None:
    assert len(boot_id(Path("/proc"))) == 36
    assert boot_id(tmp_path) == ""


def test_the_library_is_the_configured_one_or_found_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "lib64" / "libdcmi.so"
    library.parent.mkdir()
    library.write_bytes(b"")
    assert find_library(str(library)) == library
    assert find_library(str(tmp_path / "other.so")) is None
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:{library.parent}")
    assert find_library(None) == library


@pytest.mark.parametrize(("generation", "asked"), [("310P", False), ("910B", True)])
def test_cards_without_ports_are_not_asked_for_links(make_host: MakeHost, generation: str, asked: bool) -> None:
    host = make_host(generation, chips=1)
    nothing = str(host.sysfs / "nothing")
    paths = Paths(dcmi=nothing, hccn_tool=str(host.hccn_tool), state_dir=nothing, sysfs=str(host.sysfs))
    assert (open_host(AgentConfig(paths=paths), Metrics()).sensors.hccn is not None) is asked


async def test_a_host_with_nothing_to_look_through_is_blind_and_says_what_to_do(tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    config = AgentConfig(
        paths=Paths(dcmi=nothing, npu_smi=nothing, hccn_tool=nothing, state_dir=nothing, sysfs=nothing)
    )
    host = open_host(config, Metrics())
    assert host.library is None
    assert host.sensors.hccn is None
    silent = (await host.sensors.chips.poll()).silent
    assert silent is not None
    assert "paths.dcmi" in silent
