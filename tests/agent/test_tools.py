"""Vendor tools as processes: deadlines, caps, locks; and what hccn_tool says."""

import asyncio
import fcntl
import os
import time
from pathlib import Path

import pytest

from agent.detect.readings import LinkReading
from agent.sensors.hccn import Hccn, parse_link
from agent.sensors.process import OUTPUT_CAP_BYTES, Output, Tool, ToolError, find_tool
from console.lab.host import SimHost


def script(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


async def test_output_of_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    tool = Tool(script(tmp_path / "tool", 'echo "$1 $LC_ALL"; echo oops >&2; exit 187'), timeout_s=10)
    assert await tool.run("info") == Output(187, "info C\n", "oops\n")


async def test_a_tool_that_hangs_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tool = Tool(script(tmp_path / "tool", f"sleep 100 & echo $! > {pids}; wait"), timeout_s=0.5)
    began = time.monotonic()
    with pytest.raises(ToolError, match=r"tool -x: no answer within 0\.5 s"):
        await tool.run("-x")
    assert time.monotonic() - began < 50
    assert not runs(int(pids.read_text()))
    with pytest.raises(ToolError):
        await tool.run("-x")


async def test_a_flood_of_output_is_cut_short(tmp_path: Path) -> None:
    tool = Tool(script(tmp_path / "tool", "yes"), timeout_s=20)
    with pytest.raises(ToolError, match=f"more than {OUTPUT_CAP_BYTES} bytes"):
        await tool.run()


async def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="nothing-here: cannot be started"):
        await Tool(tmp_path / "nothing-here", timeout_s=1).run()


async def test_one_run_at_a_time(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    tool = Tool(script(tmp_path / "tool", f"echo begin >> {marks}; sleep 0.05; echo end >> {marks}"), timeout_s=20)
    await asyncio.gather(*(tool.run() for _ in range(4)))
    assert marks.read_text().split() == ["begin", "end"] * 4


async def test_another_process_that_holds_the_lock_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    held = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    tool = Tool(script(tmp_path / "tool", "echo ran"), timeout_s=0.3, lock=lock)
    with pytest.raises(ToolError, match=str(lock)):
        await tool.run()
    os.close(held)
    assert (await Tool(tool.path, timeout_s=10, lock=lock).run()).out == "ran\n"


def test_a_configured_tool_is_the_only_candidate(tmp_path: Path) -> None:
    usual = script(tmp_path / "usual", "")
    assert find_tool(None, str(tmp_path / "absent"), str(usual)) == usual
    assert find_tool(str(tmp_path / "absent"), str(usual)) is None


@pytest.mark.parametrize(
    ("output", "up"),
    [
        pytest.param(Output(0, "link status: UP\n", ""), True, id="up"),
        pytest.param(Output(0, "link status: DOWN\n", ""), False, id="down"),
        pytest.param(Output(1, "", "Command execute failed!\n"), None, id="failed"),
        pytest.param(Output(3, "link status: DOWN\n", ""), None, id="an exit code beats the text"),
        pytest.param(Output(11, "hccn_tool is busy, please try again.\n", ""), None, id="busy, on stdout"),
        pytest.param(Output(0, "link status: DOWN really\n", ""), None, id="more than three words"),
        pytest.param(Output(0, "", ""), None, id="nothing"),
    ],
)
def test_a_tool_that_fails_says_nothing_about_the_link(output: Output, up: bool | None) -> None:
    if up is not None:
        assert parse_link(output) is up
        return
    with pytest.raises(ToolError, match=f"hccn_tool ended with {output.code}: ."):
        parse_link(output)


async def test_links_of_a_host(host: SimHost, tmp_path: Path) -> None:
    host.link(2, up=False)
    hccn = Hccn(host.hccn_tool, lock=tmp_path / "lock")
    assert await hccn.link(2) == LinkReading(2, False)
    assert await hccn.link(3) == LinkReading(3, True)
    absent = await hccn.link(40)
    assert absent.up is None
    assert absent.why
