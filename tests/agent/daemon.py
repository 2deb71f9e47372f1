"""The agent as a process, and what it has reported, seen as the reconciler sees it: in Redis."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from console.lab.host import SimHost
from shared.model import NodeReport
from shared.names import EVENTS_STREAM, report_key
from shared.wire import decode_note, decode_report
from tests.process import Process, free_ports
from tests.waiting import wait_until

NODE = "node-a"
RUN = """
import sys
from pathlib import Path
from agent.config import load
from agent.main import run
from shared import logs
logs.setup()
sys.exit(run(load(Path(sys.argv[1]))))
"""
START_S = 40  # a loaded machine imports slowly


class AgentProcess:
    """``library=False``: the agent has the tools alone; ``dcmi``: it looks for the library there. ``tools=False``: not
    even those. ``defaults``: it polls and reports as seldom as on a real host, not as often as a test wants."""

    def __init__(
        self,
        host: SimHost,
        redis_url: str,
        directory: Path,
        *,
        library: bool = True,
        tools: bool = True,
        hccn: bool = False,
        kmsg: Path | None = None,
        dcmi: Path | None = None,
        chips_s: float = 1.0,
        links_s: float = 1.0,
        heartbeat_s: float = 2.0,
        defaults: bool = False,
    ) -> None:
        (self.port,) = free_ports(1)
        self.state_dir = directory / "state"
        nothing = str(directory / "nothing")
        config = directory / "agent.toml"
        often = f"""
[poll]
chips_s = {chips_s}
host_s = 1
links_s = {links_s}
[report]
heartbeat_s = {heartbeat_s}
"""
        config.write_text(
            f"""
node = "{NODE}"
{"" if defaults else often}
[redis]
url = "{redis_url}"
[http]
listen = "127.0.0.1:{self.port}"
[paths]
dcmi = "{dcmi or (host.library if library else nothing)}"
npu_smi = "{host.npu_smi if tools else nothing}"
hccn_tool = "{host.hccn_tool if hccn else nothing}"
state_dir = "{self.state_dir}"
config_dir = "{directory / "faults"}"
kubelet_dir = "{directory / "kubelet"}"
sysfs = "{host.sysfs}"
kmsg = "{kmsg or nothing}"
"""
        )
        self._redis = redis.Redis.from_url(redis_url)
        root = str(Path(__file__).parents[2])
        environment = [f"{name}={value}" for name, value in {**host.env(), "PYTHONPATH": root}.items()]
        argv = ["env", *environment, sys.executable, "-c", RUN, str(config)]
        self._process = Process("agent", argv, directory / "agent.log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._process.log.read_text()

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def code(self) -> int | None:
        """With which it has ended; None while it runs."""
        return self._process.code

    @property
    def pids(self) -> list[int]:
        """The agent's own process and its children."""
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def start(self) -> None:
        self._process.start()

    def kill(self) -> None:
        """SIGKILL, to the agent alone: its children have to notice."""
        if self._process.running:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._redis.close()

    def terminate(self) -> float:
        """SIGTERM; how many seconds the end took."""
        began = time.monotonic()
        os.kill(self._process.pid, signal.SIGTERM)
        wait_until("the agent ends", lambda: not self._process.running, timeout_s=30)
        return time.monotonic() - began

    def report(self) -> NodeReport | None:
        raw = self._redis.get(report_key(NODE))
        return decode_report(raw, node=NODE) if isinstance(raw, bytes) else None

    def until(self, what: str, check: Callable[[NodeReport], Any], timeout_s: float = 40) -> NodeReport:
        """The first report for which ``check`` is true."""

        def look() -> NodeReport | None:
            report = self.report()
            return report if report is not None and check(report) else None

        try:
            found = wait_until(what, look, timeout_s)
        except AssertionError as exc:
            raise AssertionError(f"{exc}; its report: {self.report()}; its log:\n{self.log[-4000:]}") from None
        assert found is not None
        return found

    def ready(self) -> NodeReport:
        return self.until("a first report", lambda report: True, START_S)

    def history(self) -> list[str]:
        """What the events stream tells, as ``raised 80E01801@3``, in order."""
        entries: Any = self._redis.xrange(EVENTS_STREAM)
        notes = [decode_note(fields[b"note"]) for _, fields in entries]
        return [f"{event.kind} {event.id}" for note in notes for event in note.events]


def fault_ids(report: NodeReport) -> set[str]:
    return {fault.id for fault in report.faults}
