"""A child process of the tests: started with its log in a file, found healthy or explained, and never left behind."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOG_TAIL_LINES = 25


class ProcessFailed(Exception):
    """A child did not become ready or ended by itself. The message carries the end of its log."""


def free_ports(count: int) -> list[int]:
    """``count`` different TCP ports of 127.0.0.1 that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


class Process:
    """One child in a process group of its own, killed by the kernel should the tests die before they can end it.

    ``setpriv --pdeathsig`` does the latter. The kernel watches the *thread* that started the child, so start it from
    one that lives as long as the child should: the main thread.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """With which the child has ended, negative for a signal; None while it runs."""
        return None if self._popen is None else self._popen.poll()

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    def start(self) -> None:
        """Start the child; its output is appended to the log, so that a restart keeps the story before it."""
        assert not self.running, f"{self.name} runs already"
        with self.log.open("ab") as out:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, probe: Callable[[], bool], timeout_s: float) -> None:
        """Until ``probe`` says so; ProcessFailed when the child ends first or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not probe():
            if not self.running:
                assert self._popen is not None
                raise ProcessFailed(f"{self.name} ended with code {self._popen.returncode}{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready after {timeout_s:.0f} s{self.tail()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to the whole group, and wait: an outage is not announced, and nothing here is worth a clean end."""
        if self._popen is None:
            return
        if self.running:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait(timeout=10)

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"; its log {self.log} ends:\n" + "\n".join(lines[-LOG_TAIL_LINES:])
