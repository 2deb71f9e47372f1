"""What the reconciler costs while 10,000 agents send heartbeats and 1,000 changes a second come in, and how late it is.

On the real kube-apiserver with 10,000 nodes and 40,000 pods; the agents are one process that writes to Redis. Twice a
second a node of its own gets a fault that asks for its taint: the lag is from that report to the taint on a watch. The
same at a quarter and a half of the size, with as many changes in proportion, tells how the cost grows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from shared.model import FaultLevel
from tests.bench.burst_500 import Firsts
from tests.bench.fleet import Fleet, broken, fleet
from tests.bench.line import growth, line
from tests.bench.processes import cpu, memory
from tests.bench.scale import scaled
from tests.integration.daemons import Reconciler
from tests.integration.journal import Journal
from tests.process import Process
from tests.waiting import wait_until

NODES, PODS, CHANGES = 10_000, 40_000, 1000
SIZES = ((1, 30.0), (4, 10.0), (2, 10.0))
"""(part of the full size, seconds). The one with the goals first: it is there whatever the time allows afterwards."""
SETTLE_S, PROBE_EVERY_S = 5.0, 0.5
CPU_GOAL_MILLICORES, MEMORY_GOAL_MIB = 1000.0, 1024.0
MIB = 1024 * 1024


def run() -> Iterator[str]:
    cost: dict[int, float] = {}
    for parts, lasts_s in SIZES:
        with tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as scratch:
            with fleet(Path(scratch), NODES // parts, PODS // parts) as made:
                full, nodes = parts == 1, len(made.names)
                used, rate, size, lags = _measured(made, scaled(CHANGES // parts), lasts_s)
            cost[nodes] = used
            said = f"{nodes} nodes, {rate:.0f} reports a second taken, {lasts_s:g} s"
            goal = CPU_GOAL_MILLICORES if full else None
            yield line(f"steady_{nodes}_cpu", "millicores", [used], goal=goal, note=said)
            goal = MEMORY_GOAL_MIB if full else None
            yield line(f"steady_{nodes}_rss", "MiB", [size / MIB], goal=goal, note=said)
            yield line(f"steady_{nodes}_lag", "s", lags, note=f"report to taint meanwhile; {said}")
    yield growth("steady_growth", cost)


def _measured(made: Fleet, changes: int, lasts_s: float) -> tuple[float, float, float, list[float]]:
    """(CPU of the reconciler in millicores, reports it has taken a second, its memory in bytes, lags in seconds)."""
    reconciler = made.reconciler()
    probes = min(len(made.names) // 4, int(lasts_s / PROBE_EVERY_S))
    agents = _agents(made, len(made.names) - probes, changes)
    journal = Journal(made.plane.api, {"Node": "/api/v1/nodes"})
    firsts, said = Firsts(journal), dict[str, float]()
    try:
        time.sleep(SETTLE_S)
        before, taken, began = cpu(reconciler.pid).total, _taken(reconciler), time.monotonic()
        for number, name in enumerate(made.names[-probes:]):
            time.sleep(max(0.0, began + number * PROBE_EVERY_S - time.monotonic()))
            said |= made.say([name], broken(FaultLevel.PRE_SEPARATE_NPU))
        time.sleep(max(0.0, began + lasts_s - time.monotonic()))
        took_s = time.monotonic() - began
        used, rate = cpu(reconciler.pid).total - before, (_taken(reconciler) - taken) / took_s
        size = memory(reconciler.pid)["Rss"]

        def done() -> bool:
            firsts.look()
            return firsts.tainted.keys() >= said.keys()

        wait_until("all tainted", done, 60)
    finally:
        journal.close()
        agents.kill()
    return 1000 * used / took_s, rate, float(size), [firsts.tainted[name] - at for name, at in said.items()]


def _agents(made: Fleet, nodes: int, changes: int) -> Process:
    argv = [sys.executable, "-m", "tests.bench.agents", made.broker.url, str(nodes), str(changes)]
    agents = Process("agents", argv, made.directory / "agents.log")
    agents.start()
    return agents


def _taken(reconciler: Reconciler) -> float:
    return reconciler.metric("npuwarden_reconciler_reports_total")
