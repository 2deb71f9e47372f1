"""One `npu-warden lab ...` command of a test, and every process that descends from it."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import wait_until

NPU_WARDEN = Path(sys.executable).with_name("npu-warden")
MARK = "NPUWARDEN_TEST_MARK"
"""Its value is in the environment of the command and, inherited, of all that it starts."""
END_S = 150.0


class LabCommand:
    """The running command; output goes to files, which never block it."""

    def __init__(self, args: tuple[str, ...], directory: Path, env: Mapping[str, str]) -> None:
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self._mark = uuid.uuid4().hex
        self._known: set[psutil.Process] = set()
        self._out, self._err = directory / "stdout", directory / "stderr"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [NPU_WARDEN, *args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "TMPDIR": str(self.temporary), MARK: self._mark, **env},
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def last_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found

    def wait(self) -> int:
        """Its exit code. Meanwhile its descendants are noted."""

        def ended() -> bool:
            self.descendants()
            return self.process.poll() is not None

        wait_until("it ends", ended, END_S)
        return self.process.wait()

    def wait_for(self, text: str) -> None:
        """Until it has printed the text, or ended without."""
        wait_until(f"{text!r} on stdout", lambda: text in self.stdout or self.process.poll() is not None, END_S)
        assert text in self.stdout, f"ended with {self.process.returncode} before {text!r}: {self.stderr}"

    def descendants(self) -> list[psutil.Process]:
        """Every process seen so far that it has started, directly or not, and that still runs.

        The mark finds those whose parent is gone; redis-server overwrites its environment and is found as a child.
        """
        with suppress(psutil.NoSuchProcess):  # it has ended
            self._known.update(psutil.Process(self.process.pid).children(recursive=True))
        self._known.update(one for one in psutil.process_iter() if one.pid != self.process.pid and self._marked(one))
        self._known = {one for one in self._known if _runs(one)}
        return list(self._known)

    def nothing_left(self) -> None:
        """A process may need a moment to end after its parent has."""
        wait_until(f"none of {self.descendants()} runs", lambda: not self.descendants())

    def running(self, *words: str) -> list[psutil.Process]:
        """Descendants with all these words in their command line."""
        found = [(process, _command_line(process)) for process in self.descendants()]
        return [process for process, line in found if all(word in line for word in words)]

    def _marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self._mark
        except psutil.Error:
            return False


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def lab(*args: str, directory: Path, env: Mapping[str, str] | None = None) -> Iterator[LabCommand]:
    """Run `npu-warden lab ARGS`; whatever a failing test leaves is killed."""
    command = LabCommand(("lab", *args), directory, env or {})
    try:
        yield command
    finally:
        left = command.descendants()
        command.process.kill()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        command.process.wait(timeout=10)
