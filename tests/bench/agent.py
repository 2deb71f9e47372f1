"""What the agent costs a node of 16 chips: CPU, memory, and how long one poll of the chips takes.

Real processes on the simulated host, default periods, Redis beside it. The driver library is compiled; `hccn_tool` is
a shell script that prints what the host's own stand-in has answered once for the same question, because the stand-in
is a Python program and its start would be most of the figure. So the figure has everything the agent does to run
the tool, and of the tool itself a small program's start.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from agent.sensors.kubelet import CHECKPOINT
from console.lab.host import SimHost
from tests.agent.daemon import AgentProcess
from tests.bench.line import line
from tests.bench.processes import Cpu, cpu, memory
from tests.redis_server import RedisServer

CHIPS = 16
SETTLE_S, WINDOW_S, WINDOWS = 8.0, 10.0, 12
"""Start-up is no part of it. The windows together are one period of the slowest probe."""
CPU_GOAL_MILLICORES, MEMORY_GOAL_MIB, POLL_GOAL_S = 50.0, 100.0, 1.0
PORT_QUESTIONS = ("-link", "-link_stat", "-net_health", "-optical", "-stat")
MUST_WORK = (
    "chip_health",
    "link_state",
    "link_flap",
    "net_health",
    "port_errors",
    "hbm_ecc",
    "temperature_power",
    "hccs",
)
"""Probes that this host has something for: one that fails would cost less than it should."""
MIB = 1024 * 1024


def run() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as scratch, ExitStack() as stack:
        directory = Path(scratch)
        (directory / "redis").mkdir()
        broker = RedisServer(directory / "redis")
        broker.start()
        stack.callback(broker.stop)
        host = SimHost.create(directory / "host", "A3", CHIPS)
        assert host.library is not None, "the stand-in library needs a C compiler"
        _answers_once(host)
        _checkpoint(directory / "kubelet")
        agent = AgentProcess(host, broker.url, directory, hccn=True, defaults=True)
        agent.start()
        stack.callback(agent.kill)
        agent.until("16 chips", lambda report: len(report.chips) == CHIPS, 60)
        time.sleep(SETTLE_S)
        yield from _measured(agent)


def _measured(agent: AgentProcess) -> Iterator[str]:
    pid = agent.pids[0]
    windows: list[Cpu] = []
    sizes: list[dict[str, int]] = []
    polls: list[float] = []
    before, since = cpu(pid), time.monotonic()
    for _ in range(WINDOWS):
        time.sleep(WINDOW_S)
        after, at = cpu(pid), time.monotonic()
        took_s = at - since
        windows.append(
            Cpu(
                1000 * (after.own - before.own) / took_s,
                1000 * (after.children - before.children) / took_s,
                1000 * (after.ended - before.ended) / took_s,
            )
        )
        before, since = after, at
        sizes.append(memory(pid))
        polls.append(float(_probes(agent)["chip_health"]["took_s"]))
    probes = _probes(agent)
    if failing := [name for name in MUST_WORK if name not in probes or probes[name].get("error")]:
        raise RuntimeError(f"probes that should work here and do not: {', '.join(failing)}")
    said = f"{CHIPS} chips, {WINDOWS} windows of {WINDOW_S:g} s"
    mean = sum(one.total for one in windows) / WINDOWS
    totals = [one.total for one in windows]
    yield line("agent_cpu", "millicores", totals, value=mean, goal=CPU_GOAL_MILLICORES, note=f"mean; {said}")
    for part, of in (("own", "its own process"), ("children", "the two of the driver"), ("ended", "tools it has run")):
        values = [float(getattr(one, part)) for one in windows]
        yield line(f"agent_cpu_{part}", "millicores", values, value=sum(values) / WINDOWS, note=f"mean; {of}")
    yield line("agent_rss", "MiB", [size["Rss"] / MIB for size in sizes], goal=MEMORY_GOAL_MIB, note="with children")
    yield line("agent_pss", "MiB", [size["Pss"] / MIB for size in sizes], note="with children, shared pages by shares")
    yield line("agent_poll", "s", polls, goal=POLL_GOAL_S, note=f"health and codes of {CHIPS} chips")


def _probes(agent: AgentProcess) -> dict[str, dict[str, Any]]:
    """How each probe is doing, by the agent's own API."""
    with urllib.request.urlopen(f"{agent.url}/v1/probes", timeout=10) as answer:
        return {item["name"]: item for item in msgspec.json.decode(answer.read())["items"]}


def _answers_once(host: SimHost) -> None:
    """Replace the host's hccn_tool by one that has all answers ready."""
    answers = host.directory / "answers"
    answers.mkdir()
    for phy in range(CHIPS):
        for question in PORT_QUESTIONS:
            argv = [str(host.hccn_tool), "-i", str(phy), question, "-g"]
            done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
            (answers / f"{phy}{question}").write_bytes(done.stdout)
    host.hccn_tool.write_text(f'#!/bin/sh\nexec cat {shlex.quote(str(answers))}/"$2$3"\n')


def _checkpoint(kubelet: Path) -> None:
    """Two pods of eight chips, as the kubelet has noted them."""
    entries = [
        {
            "PodUID": f"00000000-0000-4000-8000-00000000000{pod}",
            "ContainerName": "main",
            "ResourceName": "huawei.com/Ascend910",
            "DeviceIDs": {"0": [f"Ascend910-{chip}" for chip in range(8 * pod, 8 * pod + 8)]},
        }
        for pod in range(CHIPS // 8)
    ]
    path = kubelet / CHECKPOINT
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode({"Data": {"PodDeviceEntries": entries}}))
    (kubelet / "pods").mkdir()
    for entry in entries:
        (kubelet / "pods" / str(entry["PodUID"])).mkdir()
