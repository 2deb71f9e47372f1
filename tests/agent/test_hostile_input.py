"""Files, tools and settings that are wrong: one clear complaint, and the watch goes on."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from agent.config import load
from agent.fault_files import FaultFiles, look
from agent.sensors.kubelet import CHECKPOINT, PodDevices
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.process import Tool, ToolError
from console.lab.host import SimHost
from shared.config import ConfigError
from tests.agent.conftest import MakeHost
from tests.agent.test_tools import runs, script
from tests.waiting import eventually

pytestmark = pytest.mark.slow


class Bus:
    npus: frozenset[str] | None = None
    passed_through: frozenset[str] = frozenset()


def checkpoint(device: str) -> bytes:
    entry = {"PodUID": "u", "ResourceName": "huawei.com/Ascend910", "DeviceIDs": {"0": [device]}}
    return json.dumps({"Data": {"PodDeviceEntries": [entry]}}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(checkpoint("Ascend910-2").replace(b"Ascend910", b"\xff\xfe", 1), id="not UTF-8"),
        pytest.param(b'{"Data":' + b'{"x":' * 20_000, id="nested without end"),
        pytest.param(b"\0" * 4096, id="zeros after a power cut"),
        pytest.param(checkpoint("Ascend910-2")[:-10], id="half of it"),
        pytest.param(b"null", id="null"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_keeps_the_last_mapping(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / CHECKPOINT
    path.parent.mkdir()
    path.write_bytes(checkpoint("Ascend910-2"))
    pods = PodDevices(tmp_path)
    assert pods.refresh()
    path.write_bytes(raw)
    pods.refresh()
    assert pods.pods.get(2) == ("u",)


def test_a_device_of_a_checkpoint_that_is_none_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    path.parent.mkdir()
    path.write_bytes(checkpoint("Ascend910-" + "9" * 5000))
    pods = PodDevices(tmp_path)
    pods.refresh()
    assert pods.pods == {}


def test_a_fault_file_that_is_a_directory_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "faultCode.json").mkdir()
    files = FaultFiles(tmp_path)
    for _ in range(5):
        assert files.changed(look(tmp_path)) == {}
    assert len(caplog.records) == 1


async def test_a_tool_that_leaves_a_daemon_behind_leaks_no_descriptor(tmp_path: Path) -> None:
    """The daemon has a session of its own and keeps the tool's stdout open: its end never comes."""
    pids = tmp_path / "pids"
    path = script(tmp_path / "tool", f"setsid sleep 30 & echo $! >> {pids}; echo said")
    tool = Tool(path, timeout_s=0.3)
    try:
        with pytest.raises(ToolError):
            await tool.run()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(ToolError):
                await tool.run()
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        for pid in map(int, pids.read_text().split()):
            os.kill(pid, 9)


async def test_a_tool_that_ignores_sigterm_and_forks_is_gone_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = script(
        tmp_path / "tool", f"trap '' TERM HUP INT; for i in 1 2 3; do sleep 99 & echo $! >> {pids}; done; wait"
    )
    with pytest.raises(ToolError, match="no answer within"):
        await Tool(path, timeout_s=0.5).run()
    forked = [int(pid) for pid in pids.read_text().split()]
    assert len(forked) == 3
    await eventually("all it forked are gone", lambda: not any(map(runs, forked)))


async def test_a_hundred_megabytes_are_not_kept(tmp_path: Path) -> None:
    path = script(tmp_path / "tool", "head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2")
    async with asyncio.timeout(10):
        with pytest.raises(ToolError, match="more than"):
            await Tool(path, timeout_s=9).run()


@pytest.mark.parametrize(
    "text",
    ["", "echo hello", "exit 1", "kill -9 $$", "printf '\\377\\376'", "echo '| | | |'", "echo '| NPU | Health | x |'",
     "cat /bin/sh", "echo npu-smi; echo '+---+'; echo '| 0  910B3 | OK | 93.1 45 0 / 0 |'"],
)  # fmt: skip
async def test_foreign_output_of_npu_smi_is_a_silent_driver(tmp_path: Path, text: str) -> None:
    tool = NpuSmi(script(tmp_path / "npu-smi", text + "\n"), bus=Bus(), lock=None)
    reading = await tool.poll()
    assert reading.silent or not reading.chips
    assert await tool.read(0) is None


async def test_a_code_beside_health_ok_does_not_flicker(make_host: MakeHost) -> None:
    """A chip that shows OK is asked for its codes in turn only; one that has some is asked at every poll."""
    host = make_host(chips=4)
    host.occur(3, "80CB8002", severity=0)
    tool = NpuSmi(host.npu_smi, bus=Bus(), lock=None)
    seen = []
    for _ in range(7):
        reading = await tool.poll()
        assert reading.silent is None
        (chip,) = [one for one in reading.chips if one.chip.phy == 3]
        seen.append(chip.codes)
    first = seen.index(("80CB8002",))
    assert set(seen[first:]) == {("80CB8002",)}


async def test_a_table_cut_short_loses_no_chip(host: SimHost, tmp_path: Path) -> None:
    """Exit code 0 and the last rows missing: `-m` still knows the chips, so they are unknown and not gone."""
    flag = tmp_path / "cut"
    short = f'if [ "$*" = info -a -e {flag} ]; then {host.npu_smi} info | head -n 14; else exec {host.npu_smi} "$@"; fi'
    path = script(tmp_path / "npu-smi", short + "\n")
    tool = NpuSmi(path, bus=Bus(), lock=None)
    assert len((await tool.poll()).chips) == 8
    flag.touch()
    chips = {one.chip.phy: one.codes for one in (await tool.poll()).chips}
    assert sorted(chips) == list(range(8))
    assert [phy for phy, codes in chips.items() if codes is None] == [3, 4, 5, 6, 7]
    assert (await NpuSmi(path, bus=Bus(), lock=None).poll()).gaps == 5, "at the first look nobody knows their names"


BAD = {
    "[poll]\nchips_s = 0": "poll.chips_s",
    "[poll]\nchips_s = nan": "poll.chips_s",
    "[poll]\nchips_s = inf": "poll.chips_s",
    "[poll]\nchips_s = -5": "poll.chips_s",
    "[poll]\nchips_s = '5'": "poll.chips_s",
    "[poll]\nchip_s = 5": "chip_s",
    "[pol]\nchips_s = 5": "pol",
    "poll = 5": "poll",
    "[report]\nheartbeat_s = true": "heartbeat_s",
    "[debounce]\nflaps = 0": "flaps",
    "[debounce]\nrecover_hold_s = nan": "recover_hold_s",
    "[debounce]\nflap_window_s = nan": "flap_window_s",
    "[debounce]\nlost_card_polls = 2.5": "lost_card_polls",
    "[http]\nlisten = '9465'": "http.listen",
    "[http]\nlisten = ':99999'": "http.listen",
    "[http]\nlisten = ':\u0663'": "http.listen",
    "[http]\nlisten = 5": "http.listen",
    "[redis]\nurl = 5": "redis.url",
    "[redis]\ntimeout_s = 0": "redis.timeout_s",
    "[redis]\npassword = 'x'": "password",
    '[paths]\nstate_dir = "a\\u0000b"': "paths.state_dir",
    "[paths]\nstate_dir = ''": "paths.state_dir",
    '[paths]\ndcmi = "a\\u0000b"': "paths.dcmi",
    "node = 5": "node",
    "node = 'Node A'": "node",
    "node = ''": "node",
    'node = "a\\nb"': "node",
    "= 5": "not TOML",
    "[poll]\nchips_s = 1\n[poll]\nchips_s = 2": "not TOML",
}


@pytest.mark.parametrize("text", BAD)
def test_each_mistake_in_agent_toml_is_named_with_its_key_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    said = str(caught.value)
    assert str(path) in said
    assert BAD[text] in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\x00" * 100, b"a" * 100_000])
def test_a_file_that_is_no_toml_is_one_clear_line(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "agent.toml"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
