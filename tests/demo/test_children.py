"""The lab's child processes: none outlives its owner, and one that ends by itself says so."""

import sys
from pathlib import Path

import psutil
import pytest

from console.lab import children
from console.lab.children import Child, RigError
from tests.waiting import eventually

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("deaf", flush=True)
time.sleep(600)
"""


def command(process: psutil.Process) -> str:
    """Its command line; empty when it has ended, whoever was its parent."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


async def test_a_child_that_ignores_sigterm_is_killed_with_its_own_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "STOP_S", 0.2)
    log = tmp_path / "log"
    child = Child("stubborn", [sys.executable, "-c", STUBBORN], log)
    await child.start()
    await eventually("it ignores SIGTERM", lambda: child.last_words() == "deaf")
    mine = [one for one in psutil.Process().children(recursive=True) if "sleep(600)" in command(one)]
    assert len(mine) == 2
    await child.stop()
    await eventually("both are gone", lambda: not any(command(one) for one in mine))
    await child.watch()  # it was told to end: no error


async def test_a_child_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child("the clerk", [sys.executable, "-c", "print('no more ink'); raise SystemExit(4)"], log)
    await child.start()
    with pytest.raises(RigError, match=r"the clerk ended by itself with code 4: no more ink \(log: .*/log\)"):
        await child.watch()
    await child.stop()
