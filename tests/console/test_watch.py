"""--watch, as a real process on a pipe and on a terminal of 80 columns; and every table fits those."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import IO

import pytest

from console.cli.table import layout
from tests.console.conftest import Replica, add, broken
from tests.console.test_questions import recovery
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-c", "from console.main import main; main(prog_name='npu-warden')"]
COLUMNS = 80


@contextlib.contextmanager
def watching(*args: str, out: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([*PROGRAM, *args], stdout=out, stderr=subprocess.STDOUT, env={**env, "TERM": "xterm"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(10)


def test_on_a_pipe_each_change_is_a_document_on_a_line(url: str, replica: Replica) -> None:
    with watching("faults", "--url", url, "--watch", "--json", out=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["items"] == []
        replica.say("alpha", broken(0))
        assert [fault["node"] for fault in json.loads(process.stdout.readline())["items"]] == ["alpha"]
        assert end(process) == 0


def test_a_reconciler_that_goes_away_is_told_and_waited_for(url: str, replica: Replica) -> None:
    with watching("faults", "--url", url, "-w", out=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"no open faults\n"
        replica.leads = False
        assert process.stdout.readline() == b"\n"
        assert b"no answer: " in process.stdout.readline()
        replica.leads = True
        assert process.stdout.readline() == b"\n"
        assert process.stdout.readline() == b"no open faults\n"
        assert end(process) == 0


def shown_on_terminal(*args: str, until: str) -> str:
    """What a terminal of 80 columns is sent until `until` is part of it."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    os.set_blocking(mine, False)
    seen = bytearray()

    def read() -> bool:
        with contextlib.suppress(BlockingIOError):
            seen.extend(os.read(mine, 65536))
        return until in seen.decode(errors="replace")

    try:
        with watching(*args, out=theirs) as process:
            wait_until(until, read, 20)
            assert end(process) == 0
    finally:
        os.close(mine)
        os.close(theirs)
    return seen.decode()


@pytest.mark.parametrize(
    ("command", "until"),
    [
        (["status"], "explains a node"),
        (["nodes"], "spare-2"),
        (["faults"], "unconfirmed"),
        (["recoveries"], "Recovered"),
        (["why", "alpha"], "WaitingForCapacity"),
        (["coverage"], "CRASH"),
    ],
)
def test_on_a_terminal_it_is_redrawn_in_place_and_fits_80_columns(
    command: list[str], until: str, url: str, replica: Replica
) -> None:
    replica.say("alpha", broken(0), broken(1))
    replica.say("spare-1", broken(3, confirmed=False))
    add(replica.world, recovery("WaitingForCapacity", reason="capacity", message="no room " * 9), recovery("Recovered"))
    text = shown_on_terminal(*command, "--url", url, "--watch", until=until)
    assert text.startswith("\x1b[2J\x1b[H")
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    assert [line for line in plain.splitlines() if len(line) > COLUMNS] == []


def test_any_cells_fit_80_columns() -> None:
    columns = ("WORKLOAD", "KIND", "UNITS", "PODS", "NPUS", "CHIP", "NODE", "CRASH")
    row = [f"{name.lower()}-" * 9 for name in columns]
    assert max(map(len, layout(columns, [row], COLUMNS, lambda _, padded: padded))) <= COLUMNS
