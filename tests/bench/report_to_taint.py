"""From a report in Redis to the taint, under a steady 10 and 100 faults a second.

2,000 nodes on the real kube-apiserver; each fault is on another node and asks for its taint alone. The moment of the
taint is the one at which a watch shows it. The brakes are off.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from shared.model import FaultLevel
from tests.bench.burst_500 import Firsts
from tests.bench.fleet import Fleet, broken, fleet
from tests.bench.line import line, percentile
from tests.bench.scale import scaled
from tests.integration.journal import Journal
from tests.waiting import wait_until

NODES, PODS = 2000, 8000
RATES = ((10, 150), (100, 1500))
"""(faults a second, faults)"""
P50_GOAL_S, P99_GOAL_S = 0.026, 0.165


def run() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as scratch, fleet(Path(scratch), NODES, PODS) as made:
        made.reconciler()
        journal = Journal(made.plane.api, {"Node": "/api/v1/nodes"})
        try:
            fresh = iter(made.names)
            for rate, count in RATES:
                names = [name for _, name in zip(range(scaled(count)), fresh, strict=False)]
                values = _taints(made, journal, names, rate)
                said = f"{len(values)} faults, {len(made.names)} nodes"
                name = f"report_to_taint_{rate}_a_second"
                yield line(name, "s", values, goal=P50_GOAL_S, note=f"the median; {said}")
                yield line(f"{name}_p99", "s", values, value=percentile(values, 0.99), goal=P99_GOAL_S, note=said)
        finally:
            journal.close()


def _taints(made: Fleet, journal: Journal, names: list[str], rate: int) -> list[float]:
    firsts, said = Firsts(journal), dict[str, float]()
    began = time.monotonic()
    for number, name in enumerate(names):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        said |= made.say([name], broken(FaultLevel.PRE_SEPARATE_NPU))

    def done() -> bool:
        firsts.look()
        return firsts.tainted.keys() >= said.keys()

    wait_until("all tainted", done, 120)
    return [firsts.tainted[name] - said[name] for name in names]
