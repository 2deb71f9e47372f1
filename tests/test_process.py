"""The tests' own children: explained when they fail, dead when the tests are."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import Process, ProcessFailed
from tests.waiting import wait_until


def alive(pid: int) -> bool:
    """A zombie waits for its new parent to collect it and counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_child_that_ends_early_is_explained_by_its_log(tmp_path: Path) -> None:
    child = Process("broken", ["sh", "-c", "echo no such flag >&2; exit 3"], tmp_path / "log")
    child.start()
    with pytest.raises(ProcessFailed, match=r"(?s)broken ended with code 3.*no such flag"):
        child.wait_ready(lambda: False, timeout_s=10)


def test_child_that_is_never_ready_is_reported(tmp_path: Path) -> None:
    child = Process("slow", ["sleep", "300"], tmp_path / "log")
    child.start()
    try:
        with pytest.raises(ProcessFailed, match="slow was not ready"):
            child.wait_ready(lambda: False, timeout_s=0.1)
    finally:
        child.kill()
    assert not child.running


def test_kill_ends_the_grandchildren_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = Process("parent", ["sh", "-c", f"sleep 300 & echo $! > {pid_file}; wait"], tmp_path / "log")
    child.start()
    grandchild = int(wait_until("grandchild started", lambda: pid_file.exists() and pid_file.read_text().strip()))
    child.kill()
    wait_until("grandchild ended", lambda: not alive(grandchild))


def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.process import Process\n"
        "child = Process('sleep', ['sleep', '300'], Path(sys.argv[1])); child.start()\n"
        "print(child.pid, flush=True); time.sleep(300)"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "log")]
    root = Path(__file__).parents[1]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        # Before setpriv has become the command it has not asked the kernel yet.
        wait_until("command started", lambda: Path(f"/proc/{child}/comm").read_text() == "sleep\n")
        parent.send_signal(signal.SIGKILL)
    wait_until("child ended by the kernel", lambda: not alive(child))
