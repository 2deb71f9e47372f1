"""Files of the host that are damaged: kubelet checkpoint, kernel log, sysfs, procfs."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host import boot_id
from agent.probes.pcie import Function, _figure, read_function
from agent.sensors.holders import pod_of
from agent.sensors.kmsg import Kmsg, Message, parse
from agent.sensors.kmsg_patterns import CODES, match
from agent.sensors.kubelet import CHECKPOINT, PodDevices
from agent.sensors.pci import PciBus
from shared.model import Instant
from shared.names import CODE_CARD_LOST
from tests.fuzz.damage import FUZZ, altered, damaged

NOW = Instant(mono=5000.0, wall=1_800_000_000.0)
UID = "3f1b8a52-6c0f-4a58-9d0c-b4a1f0c9e7d1"
ENTRY = {"PodUID": UID, "ContainerName": "c", "ResourceName": "huawei.com/Ascend910", "AllocResp": "Cg=="}
CHECKPOINT_DOCUMENT = {
    "Data": {
        "PodDeviceEntries": [
            {**ENTRY, "DeviceIDs": {"-1": ["Ascend910-3"], "0": ["Ascend910-12"]}},
            {**ENTRY, "DeviceIDs": ["npu-5"]},
            {**ENTRY, "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": ["GPU-1"]}},
        ],
        "RegisteredDevices": {"huawei.com/Ascend910": ["Ascend910-3"]},
    },
    "Checksum": 1234567890,
}
HELD = {3: (UID,), 5: (UID,), 12: (UID,)}
RECORDS = (
    b"6,339,5140900,-;NET: Registered PF_INET protocol family\n SUBSYSTEM=net\n"
    b"3,340,6140900,-;[ascend] [ERROR] [drv_soft_fault] [judge 1] <kworker/1:1:9> Heartbeat lost! (device_id=3; n=1;)\n"
    b"4,341,7140900,c;Out of memory: Killed process 6033 (java) total-vm:1kB\n"
)


@contextmanager
def scratch(factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = factory.mktemp("fuzz")
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


# The kubelet's checkpoint.


def refreshed(directory: Path, raw: bytes) -> PodDevices:
    """Who holds what, after a good file was replaced by `raw`."""
    path = directory / CHECKPOINT
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(CHECKPOINT_DOCUMENT))
    pods = PodDevices(directory)
    assert pods.refresh()
    assert pods.pods == HELD
    path.write_bytes(raw + b" ")  # never of the same size at the same moment
    pods.refresh()
    return pods


@FUZZ
@given(raw=st.one_of(damaged(msgspec.json.encode(CHECKPOINT_DOCUMENT)), altered(CHECKPOINT_DOCUMENT)))
def test_a_damaged_checkpoint_is_read_or_leaves_the_last_one(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    with scratch(tmp_path_factory) as directory:
        pods = refreshed(directory, raw)
        assert pods.error is None or pods.pods == HELD
        assert all(isinstance(phy, int) and phy >= 0 and uids for phy, uids in pods.pods.items())
        msgspec.json.encode(pods.pods)  # it goes into the report


def test_every_cut_of_a_checkpoint_leaves_the_last_one(tmp_path: Path) -> None:
    whole = msgspec.json.encode(CHECKPOINT_DOCUMENT)
    for end in range(len(whole)):
        pods = refreshed(tmp_path, whole[:end])
        assert pods.error is not None
        assert pods.pods == HELD


# The kernel log.


def log_of(directory: Path, raw: bytes) -> list[Message]:
    path = directory / "kmsg"
    path.write_bytes(raw)
    kmsg = Kmsg(path)
    try:
        return kmsg.new(NOW)
    finally:
        kmsg.close()


@FUZZ
@given(raw=damaged(RECORDS))
def test_any_bytes_in_the_kernel_log_are_messages_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    with scratch(tmp_path_factory) as directory:
        for message in log_of(directory, raw):
            assert math.isfinite(message.wall)
            assert message.wall <= NOW.wall
            found = match(message.text)
            if found is not None:
                assert found[0] in (*CODES, CODE_CARD_LOST)
                assert found[0] != CODE_CARD_LOST or int(found[1]["chip"]) >= 0


@FUZZ
@given(
    fields=st.lists(
        st.sampled_from(["3", "-", "", "٣", "9" * 30, "9" * 5000, "-1", "1e9", " 4"]), min_size=1, max_size=5
    ),
    text=st.text(max_size=30),
)
def test_a_record_with_strange_numbers_is_a_message_or_nothing(fields: list[str], text: str) -> None:
    message = parse(",".join(fields) + ";" + text, NOW)
    assert message is None or (math.isfinite(message.wall) and math.isfinite(message.mono))


def test_a_message_of_a_user_about_a_device_beyond_all_numbers_is_nothing_known() -> None:
    found = match(f"[drv_soft_fault] Heartbeat lost! (device_id={'9' * 5000};")
    assert found is None or int(found[1]["chip"]) >= 0


# sysfs and procfs.

CONTENTS = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"0x19e5\n", b"0xd802\n", b"19e5", b"-1", b"", b"\xff", b"0x" + b"f" * 5000, "٣".encode(), b"1_9"]
    ),
)


@FUZZ
@given(vendor=CONTENTS, device=CONTENTS)
def test_a_pci_function_with_strange_files_is_no_npu(
    tmp_path_factory: pytest.TempPathFactory, vendor: bytes, device: bytes
) -> None:
    with scratch(tmp_path_factory) as directory:
        function = directory / "bus/pci/devices/0000:c1:00.0"
        function.mkdir(parents=True)
        (function / "vendor").write_bytes(vendor)
        (function / "device").write_bytes(device)
        found = PciBus(directory).look()
        ours = vendor.strip() in (b"0x19e5", b"19e5") and device.strip() == b"0xd802"
        assert found is not None
        assert ours is False or found == {"0000:C1:00.0"}
        if found:
            assert int(vendor, 16) == 0x19E5


COUNTERS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"Undefined 0\nDLP 3\nTOTAL_ERR_FATAL 3\n",
            b"DLP 3\nSDES 4\n",
            b"TOTAL_ERR_FATAL -4",
            b"DLP",
            b"DLP " + b"9" * 5000,
        ]
    ),
)
LINKS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [b"16.0 GT/s PCIe\n", b"Unknown\n", b"63\n", b"255", b"8", b"0", b"inf GT/s", b"nan GT/s", b"-8 GT/s", b"1e999"]
    ),
)


@FUZZ
@given(fatal=COUNTERS, now=LINKS, best=LINKS)
def test_a_pcie_function_is_read_or_the_documented_error(
    tmp_path_factory: pytest.TempPathFactory, fatal: bytes, now: bytes, best: bytes
) -> None:
    with scratch(tmp_path_factory) as directory:
        (directory / "aer_dev_fatal").write_bytes(fatal)
        for name in ("speed", "width"):
            (directory / f"current_link_{name}").write_bytes(now)
            (directory / f"max_link_{name}").write_bytes(best)
        try:
            function = read_function(directory)
        except (OSError, ValueError):
            return
        assert isinstance(function, Function)
        msgspec.json.encode(function.errors)  # the baseline is saved
        assert fatal.strip(), "an empty file is no counter"
        assert all(total >= 0 for total in function.errors.values()), "a counter below zero is no counter"
        for text in (one for pair in function.link.values() for one in pair):
            speed = _figure(text)
            assert speed is None or 0 < speed < 1000


@FUZZ
@given(raw=st.binary(max_size=60))
def test_any_boot_id_is_text(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    with scratch(tmp_path_factory) as directory:
        path = directory / "sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
        boot_id(directory).encode()


@FUZZ
@given(text=damaged(b"0::/kubepods.slice/kubepods-pod3f1b8a52_6c0f_4a58_9d0c_b4a1f0c9e7d1.slice/cri-1.scope\n"))
def test_a_strange_cgroup_is_nobodys_or_a_uid(text: bytes) -> None:
    found: Any = pod_of(text.decode("ascii", errors="replace"))
    assert found is None or len(found) in (32, 36)
