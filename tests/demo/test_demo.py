"""`npu-warden lab demo`: the whole story, and how it ends when a step does not come."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from console.lab import workloads
from console.lab.demo import break_and_heal, everything_ready
from console.lab.rig import lab_rig
from console.lab.telling import Story
from console.lab.watching import StepMissing
from tests.demo.command import LabCommand, lab
from tests.waiting import wait_until

# A dozen processes: not for `make check`, and not to be hurried on a busy machine.
pytestmark = [pytest.mark.redis, pytest.mark.timeout(240)]


def assert_whole_story(command: LabCommand) -> None:
    assert command.wait() == 0, command.stdout + command.stderr
    result = command.last_json
    assert result["ok"] is True
    phases = result["phases"]
    assert list(phases) == ["detected_s", "tainted_s", "deleted_s", "ready_s", "released_s"]
    moments = list(phases.values())
    assert moments == sorted(moments)
    assert all(moment > 0 for moment in moments)
    untouched = result["untouched"]
    assert {"mindie/decode-0-master-0", "mindie/decode-0-worker-0"} < set(untouched)
    assert len([name for name in untouched if name.startswith("aibrix/")]) == 4
    assert not any("prefill-0" in name for name in untouched if name.startswith("mindie/"))
    command.nothing_left()
    assert list(command.temporary.iterdir()) == []


def test_every_step_is_seen_and_nothing_is_left(tmp_path: Path) -> None:
    with lab("demo", "--json", directory=tmp_path) as command:
        assert_whole_story(command)
        story = command.stdout.splitlines()[:-1]
        steps = [line.split()[2] for line in story if line.strip()[:1].isdigit()]
        assert steps == [
            *("broken", "detected", "tainted", "deleted", "recreated", "Ready", "untouched", "healed", "released"),
        ]
        assert max(map(len, story)) <= 80
        assert "\x1b" not in command.stdout
        assert "redis-server on 127.0.0.1:" in command.stdout


def test_without_redis_server_the_stand_in_does(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cc", "as", "ld"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    with lab("demo", "--json", directory=tmp_path, env={"PATH": str(tools)}) as command:
        assert_whole_story(command)
        assert "no redis-server here, an embedded stand-in" in command.stdout


def test_a_start_that_takes_too_long_is_named(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with lab("demo", "--json", "--timeout-s", "0.1", "--keep-logs", str(logs), directory=tmp_path) as command:
        assert command.wait() == 1
        (line,) = command.stderr.splitlines()
        assert line.startswith("demo failed: start: still missing: ")
        assert str(logs) in line
        assert command.last_json["ok"] is False
        assert command.last_json["phases"] == {}
        command.nothing_left()
    assert {"reconciler.log", "redis.log", "agent-node-0.log"} <= set(os.listdir(logs))


def test_interrupted_it_puts_everything_away(tmp_path: Path) -> None:
    with lab("demo", directory=tmp_path) as command:
        wait_until("the agents run", lambda: len(command.running("agent.toml")) == 4, 60)
        command.process.send_signal(signal.SIGTERM)
        assert command.wait() == 1
        assert command.stderr.startswith("demo failed: interrupted before the end")
        command.nothing_left()
        assert list(command.temporary.iterdir()) == []


async def test_a_fault_that_nobody_sees_is_the_missing_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with lab_rig(tmp_path, nodes=2) as rig:
        workloads.apply(rig.cluster)
        await everything_ready(rig, timeout_s=60)
        for host in rig.hosts.values():
            host.events(False)
            host.hang(None)
        with pytest.raises(
            StepMissing, match=r"^detected: not within 2 s: the agent of node-. has not reported 80E18402"
        ):
            await break_and_heal(rig, Story(), timeout_s=2)
    assert "broken" in capsys.readouterr().out
