"""`npu-warden lab up`: stands until told to end, obeys the commands it prints, and takes its processes with it."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from shared.names import TAINT_KEY
from tests.demo.command import NPU_WARDEN, LabCommand, lab
from tests.waiting import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(240)]

SMALL = ("up", "--nodes", "1", "--chips", "16")


def started(command: LabCommand) -> LabCommand:
    command.wait_for("Ctrl-C ends the lab")
    return command


def server_of(kubeconfig: Path) -> str:
    url: str = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return url


def get(url: str) -> dict[str, Any]:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def test_a_chip_broken_by_the_printed_command_taints_its_node(tmp_path: Path) -> None:
    place = tmp_path / "lab"
    with lab(*SMALL, "--dir", str(place), directory=tmp_path) as command:
        started(command)
        for name in ("KUBECONFIG", "NPUWARDEN_URL", "Redis ", "Agent ", "uv run npu-warden"):
            assert name in command.stdout
        printed = command.stdout.replace("\\\n", " ").splitlines()
        line = next(line.split() for line in printed if "lab host break" in line)
        subprocess.run([NPU_WARDEN, *line[1:]], check=True, timeout=60, capture_output=True)
        node = f"{server_of(place / 'kubeconfig')}/api/v1/nodes/node-0"
        taints: list[dict[str, str]] = wait_until("a taint", lambda: get(node).get("spec", {}).get("taints", []))
        assert [taint["key"] for taint in taints] == [TAINT_KEY]

        command.process.send_signal(signal.SIGINT)
        assert command.wait() == 0
        command.nothing_left()
    assert (place / "logs" / "agent-node-0.log").exists()


def test_killed_it_takes_its_processes_with_it(tmp_path: Path) -> None:
    with lab(*SMALL, "--json", directory=tmp_path) as command:
        command.wait_for("}\n")
        places = command.last_json
        assert list(places["agents"]) == list(places["hosts"]) == ["node-0"]
        assert [node["name"] for node in get(f"{places['reconciler']}/v1/nodes")["items"]] == ["node-0"]
        for words in (("agent.toml",), ("reconciler.toml",), ("redis",), ("dcmi_events",)):
            assert command.running(*words), words
        command.process.kill()
        command.wait()
        command.nothing_left()


def test_a_daemon_that_dies_ends_the_lab_with_its_name(tmp_path: Path) -> None:
    with lab(*SMALL, "--dir", str(tmp_path / "lab"), directory=tmp_path) as command:
        (agent,) = started(command).running("agent.toml")
        agent.kill()
        assert command.wait() == 3
        (line,) = command.stderr.splitlines()
        assert "the agent of node-0 ended by itself with code -9" in line
        assert "agent-node-0.log" in line
        command.nothing_left()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with lab(*SMALL, "--dir", str(tmp_path / "file" / "lab"), directory=tmp_path) as command:
        assert command.wait() == 3
        assert f"{tmp_path / 'file' / 'lab'}" in command.stderr
        assert len(command.stderr.splitlines()) == 1


def test_a_second_lab_in_the_directory_of_one_that_runs_touches_nothing(tmp_path: Path) -> None:
    place, first, second = tmp_path / "lab", tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.mkdir()
    with lab(*SMALL, "--dir", str(place), directory=first) as command:
        started(command)
        held = {path: path.read_bytes() for path in (place / "kubeconfig", place / "node-0" / "state.json")}
        with lab(*SMALL, "--dir", str(place), directory=second) as other:
            assert other.wait() == 3
            (line,) = other.stderr.splitlines()
            assert f"{place}: a lab runs in this directory already" in line
            assert "--dir" in line
        assert {path: path.read_bytes() for path in held} == held
