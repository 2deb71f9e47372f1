"""Child processes of the lab: each has a log, an owner that ends it, and dies with its parent whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_S = 6.0
"""The daemons promise to end within 5 s of SIGTERM."""

# Runs before the program, in its process: the kernel shall send a signal when the lab is gone (prctl 1), and a lab that
# was gone before that is noticed by the changed parent. What prctl set outlives exec.
_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[3], sys.argv[3:])
"""

NPU_WARDEN = (sys.executable, "-P", "-c", "from console.main import main; main(prog_name='npu-warden')")
"""The command line of this very installation. -P: a directory `agent` where the user stands is not taken for ours."""


class RigError(Exception):
    """The lab cannot go on; the text says which part of it, why, and where its log is."""


class Child:
    """One program. `watch` raises RigError when it ends before `stop` was called.

    orphaned: the signal that it gets when the lab dies; one that may be standing still then needs SIGKILL.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        *,
        orphaned: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name, self.log = name, log
        self._orphaned = orphaned
        self._argv, self._env = argv, env
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def start(self) -> None:
        """The kernel watches the thread that starts a child, so this belongs on the main thread."""
        with self.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(int(self._orphaned))),
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._env,
                start_new_session=True,  # Ctrl-C reaches the lab alone, which then ends its children in order
            )

    async def watch(self) -> None:
        """Until the child has ended."""
        assert self._process is not None
        code = await self._process.wait()
        if not self._stopping:
            raise RigError(f"{self.name} ended by itself with code {code}: {self.last_words()} (log: {self.log})")

    def signal(self, number: signal.Signals) -> None:
        """To the program alone, while it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for what is left of its process group after STOP_S."""
        self._stopping = True
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError):  # nothing is left of it
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()
