"""The warden's two daemons as they run in production: `npu-warden agent` and `npu-warden reconciler` as processes."""

import atexit
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from console.cli.toml import dump
from console.lab.children import NPU_WARDEN
from console.lab.host import SimHost
from tests.process import Process, ProcessFailed, free_ports
from tests.waiting import wait_until

HEARTBEAT_S = 2.0
START_S = 40.0  # a loaded machine imports slowly


@functools.cache
def bytecode() -> str:
    """Where all daemons of a run keep what they have compiled, as an image does: most of a start is that otherwise."""
    directory = tempfile.mkdtemp(prefix="npu-warden-bytecode-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Daemon(Process):
    """One `npu-warden COMMAND --config FILE`. ``url`` is its HTTP API."""

    def __init__(self, name: str, command: str, config: Path, port: int, environment: dict[str, str]) -> None:
        variables = [f"{key}={value}" for key, value in {**environment, "PYTHONPYCACHEPREFIX": bytecode()}.items()]
        argv = ["env", "-u", "PYTHONDONTWRITEBYTECODE", *variables, *NPU_WARDEN, command, "--config", str(config)]
        super().__init__(name, argv, config.with_suffix(".log"))
        self.url = f"http://127.0.0.1:{port}"

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, text: str, timeout_s: float = START_S) -> None:
        """Until its log has the text."""
        self.wait_ready(lambda: text in self.said, timeout_s)

    def exit_code(self, timeout_s: float = START_S) -> int:
        """Once it has ended by itself."""
        assert self._popen is not None
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise ProcessFailed(f"{self.name} did not end within {timeout_s:g} s{self.tail()}") from exc

    def signal(self, number: signal.Signals) -> None:
        """To the daemon alone: its children have to notice by themselves."""
        os.kill(self.pid, number)

    def kill_hard(self) -> None:
        """SIGKILL to the daemon alone, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.exit_code(10)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def metric(self, name: str, **labels: str) -> float:
        """One sample of /metrics; 0 for what was never counted."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        for line in self.get("/metrics").splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(label in series for label in wanted):
                return float(value)
        return 0.0


class Agent(Daemon):
    """The agent of one node, on a simulated host. ``library=False``: the tools alone; ``tools=False``: not even those.

    ``settings`` are laid over agent.toml, table by table.
    """

    def __init__(
        self,
        node: str,
        host: SimHost,
        redis_url: str,
        *,
        library: bool = True,
        tools: bool = True,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        (port,) = free_ports(1)
        self.kubelet_dir = host.directory / "kubelet"
        tables: dict[str, dict[str, Any]] = {
            "report": {"heartbeat_s": HEARTBEAT_S},
            "redis": {"url": redis_url},
            "http": {"listen": f"127.0.0.1:{port}"},
            "paths": {
                "dcmi": str(host.library) if library else "none",
                "npu_smi": str(host.npu_smi) if tools else "none",
                "hccn_tool": "none",
                "state_dir": str(host.directory / "agent"),
                "config_dir": str(host.directory / "faults"),
                "kubelet_dir": str(self.kubelet_dir),
                "sysfs": str(host.sysfs),
                "kmsg": "none",
            },
        }
        for table, values in (settings or {}).items():
            tables[table] = {**tables.get(table, {}), **values}
        config = host.directory / "agent.toml"
        config.write_text(dump(tables))
        super().__init__(f"agent {node}", "agent", config, port, {**host.env(), "NODE_NAME": node})
        self.node = node

    @property
    def children(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def subscribed(self) -> None:
        wait_until("the subscription", lambda: "subscribed to the driver's fault events" in self.said, START_S)


class Reconciler(Daemon):
    """One replica. ``crash_at``: the step of a recovery after which it dies as by SIGKILL. ``pod``: its pod's UID.
    ``settings``: tables added to reconciler.toml."""

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        redis_url: str,
        policy: dict[str, Any],
        *,
        crash_at: str = "",
        pod: str = "",
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        (port,) = free_ports(1)
        number = len(list(directory.glob("reconciler-*.toml")))
        config, rules = directory / f"reconciler-{number}.toml", directory / "policy.toml"
        rules.write_text(dump(policy))
        config.write_text(
            dump(
                {
                    "policy": rules.name,
                    "kube": {"kubeconfig": str(kubeconfig)},
                    "redis": {"url": redis_url},
                    "http": {"listen": f"127.0.0.1:{port}"},
                    **(settings or {}),
                }
            )
        )
        environment = {key: text for key, text in (("NPUWARDEN_CRASH_AT", crash_at), ("POD_UID", pod)) if text}
        self.policy_file, self.led_since = rules, 0.0
        super().__init__(f"reconciler {number}", "reconciler", config, port, environment)

    def leads(self) -> None:
        """Until it has been elected and has made its first plan."""
        self.wait_for("leads now")
        self.led_since = time.monotonic()
        self.wait_ready(lambda: self.metric("npuwarden_reconciler_plans_total") > 0, START_S)
