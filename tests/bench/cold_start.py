"""A reconciler that starts in a cluster of 10,000 nodes and 40,000 pods: until its first plan, and its memory.

On the real kube-apiserver, with its own rights, through all its watches. The process is started with its bytecode
compiled, as from an image. The same at a quarter and a half of the size tells whether it grows as the cluster does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.fleet import Fleet, fleet
from tests.bench.line import growth, line
from tests.bench.processes import cpu, memory, peak

NODES, PODS = 10_000, 40_000
GOAL_S, MEMORY_GOAL_MIB = 20.0, 1024.0
STEADY_S = 6.0
MIB = 1024 * 1024


def run() -> Iterator[str]:
    took: dict[int, float] = {}
    for parts in (1, 4, 2):  # the size with the goals first: it is there whatever the time allows afterwards
        with tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as scratch:
            with fleet(Path(scratch), NODES // parts, PODS // parts) as made:
                nodes = len(made.names)
                said = f"{nodes} nodes, {PODS * nodes // NODES} pods"
                values = _start(made)
            took[nodes] = values["cpu"]
            full = parts == 1
            yield line(f"cold_start_{nodes}", "s", [values["s"]], goal=GOAL_S if full else None, note=said)
            yield line(f"cold_start_{nodes}_cpu", "s", [values["cpu"]], note=f"of CPU, process start included; {said}")
            for kind in ("peak", "steady"):
                goal = MEMORY_GOAL_MIB if full else None
                yield line(f"cold_start_{nodes}_{kind}_rss", "MiB", [values[kind] / MIB], goal=goal, note=said)
    yield growth("cold_start_growth", took)


def _start(made: Fleet) -> dict[str, float]:
    made.compile()
    began = time.monotonic()
    reconciler = made.reconciler()
    values = {"s": time.monotonic() - began, "cpu": cpu(reconciler.pid).total}
    time.sleep(STEADY_S)
    return {**values, "peak": float(peak(reconciler.pid)), "steady": float(memory(reconciler.pid)["Rss"])}
