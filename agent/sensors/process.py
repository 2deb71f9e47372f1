"""Vendor tools as child processes: a deadline, an output cap, one at a time, and no pile of hung ones."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

OUTPUT_CAP_BYTES = 1 << 20
LOCK_POLL_S = 0.05
DEATH_S = 0.5


class ToolError(Exception):
    """The tool gave no answer: it is missing, ran out of time, or the one before it still hangs."""


class TimedOut(ToolError):
    """The tool itself has used up the time, and no lock before it."""


class Output(msgspec.Struct, frozen=True):
    """What a tool printed and how it ended. Text is decoded leniently: these tools are not careful with theirs."""

    code: int
    out: str
    err: str


class Tool:
    """One vendor program. `lock`: a file that keeps other processes of ours (a scan beside the daemon) from running
    it at the same time; None = only this process matters."""

    def __init__(self, path: Path, *, timeout_s: float, lock: Path | None = None) -> None:
        self.path = path
        self._timeout_s, self._lock_path = timeout_s, lock
        self._turn = asyncio.Lock()
        self._hanging: asyncio.subprocess.Process | None = None

    @property
    def hanging(self) -> int | None:
        """The process id of one that could not be killed and still lives."""
        hung = self._hanging
        return hung.pid if hung is not None and hung.returncode is None else None

    async def run(self, *args: str) -> Output:
        """Run to the end. Raises ToolError; any exit code is an answer."""
        what = " ".join([self.path.name, *args])
        async with self._turn:
            if self.hanging is not None:
                raise ToolError(f"{what}: the {self.path.name} before (pid {self.hanging}) still hangs; not started")
            self._hanging = None
            deadline = time.monotonic() + self._timeout_s
            async with self._locked(what, deadline):
                return await self._run(what, args, deadline)

    async def _run(self, what: str, args: tuple[str, ...], deadline: float) -> Output:
        try:
            process = await asyncio.create_subprocess_exec(
                *(str(self.path), *args),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as exc:
            raise ToolError(f"{what}: cannot be started: {exc.strerror or exc}") from exc
        assert process.stdout is not None
        assert process.stderr is not None
        waited_for_lock = deadline - time.monotonic() < self._timeout_s / 2
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                out, err = await asyncio.gather(_capped(process, process.stdout), _capped(process, process.stderr))
                if len(out) > OUTPUT_CAP_BYTES or len(err) > OUTPUT_CAP_BYTES:
                    raise ToolError(f"{what}: more than {OUTPUT_CAP_BYTES} bytes of output; killed")
                code = await process.wait()
        except TimeoutError:
            why = f"{what}: no answer within {self._timeout_s:g} s; killed"
            raise (ToolError if waited_for_lock else TimedOut)(why) from None
        finally:
            await self._finish(process)
        return Output(code, out.decode(errors="replace"), err.decode(errors="replace"))

    async def _finish(self, process: asyncio.subprocess.Process) -> None:
        """Whatever the tool has started goes with it; what cannot be killed is remembered."""
        _kill(process)
        try:
            async with asyncio.timeout(DEATH_S):
                await process.communicate()  # read what is left, or the pipes would never be closed
        except TimeoutError:
            self._hanging = process
            # what it left behind in another session may hold its pipes for ever: they are ours to close
            process._transport.close()  # type: ignore[attr-defined]

    @contextlib.asynccontextmanager
    async def _locked(self, what: str, deadline: float) -> AsyncIterator[None]:
        if self._lock_path is None:
            yield
            return
        try:
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise ToolError(f"{what}: lock {self._lock_path}: {exc.strerror or exc}") from exc
        try:
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise ToolError(f"{what}: another process holds {self._lock_path} for {self._timeout_s:g} s")
                await asyncio.sleep(LOCK_POLL_S)
            yield
        finally:
            os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _capped(process: asyncio.subprocess.Process, stream: asyncio.StreamReader) -> bytes:
    """To the end, or until it is too much: that ends the process."""
    parts, size = [], 0
    while size <= OUTPUT_CAP_BYTES and (part := await stream.read(65536)):
        parts.append(part)
        size += len(part)
    if size > OUTPUT_CAP_BYTES:
        _kill(process)
    return b"".join(parts)


def find_tool(configured: str | None, *places: str) -> Path | None:
    """The configured program, or the first of the usual places that can be executed."""
    candidates = [configured] if configured else list(places)
    return next((Path(place) for place in candidates if os.access(place, os.X_OK)), None)
