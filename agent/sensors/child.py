"""A child process that may hang in the kernel: it is killed and left, never waited for on the way of anything else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

log = logging.getLogger(__name__)

LINE_LIMIT_BYTES = 1 << 20
ENDING_S = 2.0
"""How long a killed child may take at our own end before we go without it."""


class Child:
    """One exec'd script with pipes, in a process group of its own (the driver library forks shells)."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self.stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls, name: str, script: Path, library: Path) -> Child:
        """`-I -S`: no site packages, nothing of ours is imported, about 10 MiB. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(script), str(library)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "LD_LIBRARY_PATH": search_path(library), "LC_ALL": "C"},
            start_new_session=True,
            limit=LINE_LIMIT_BYTES,
        )
        return cls(name, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def runnable(self) -> bool:
        """Whether it runs or waits for a CPU, as opposed to sleeping in a call."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "R"

    def send(self, line: str) -> None:
        """Hand over one request line. A dead reader is noticed by the missing answer."""
        self._stdin.write(line.encode() + b"\n")

    def kill(self) -> None:
        """SIGKILL to the whole group. In the kernel's D state it takes effect when the call returns, or never."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._stdin.close()

    async def gone(self) -> None:
        """Until it has died, which may be never. What it still says is read away, or its pipe would never be closed;
        so nobody else may be reading."""
        while await self.stdout.read(LINE_LIMIT_BYTES):
            continue
        await self._process.wait()

    async def end(self) -> bool:
        """Kill and wait a little, so that pipes are closed. False: it lives on, in a call that does not come back."""
        self.kill()
        try:
            async with asyncio.timeout(ENDING_S):
                await self.gone()
        except TimeoutError:
            log.warning("%s (pid %d) did not die within %.0f s of SIGKILL; leaving it", self.name, self.pid, ENDING_S)
            return False
        return True


def search_path(library: Path) -> str:
    """LD_LIBRARY_PATH for the children: the library's own dependencies must be found before exec.

    >>> search_path(Path("/usr/local/Ascend/driver/lib64/libdcmi.so")).split(":")[0]
    '/usr/local/Ascend/driver/lib64'
    """
    driver = "/usr/local/Ascend/driver/lib64"
    own = [str(library.parent), driver, f"{driver}/driver", f"{driver}/common"]
    return ":".join(dict.fromkeys([*own, *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))]))
