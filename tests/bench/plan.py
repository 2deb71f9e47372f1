"""How long the reconciler's decision takes: `plan` over 10,000 nodes of which 100 have a fault.

The pure function on a snapshot, nothing else: every node has eight chips, an agent's report and one pod of a two-pod
job with all of them. The brakes are off, so that each fault asks for its taint and its restart. The same at a half
and a quarter of the size, with as many faults in proportion, tells whether the time grows as the cluster does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import msgspec

from reconciler.core import fold
from reconciler.core.actions import Isolate, OpenRecovery
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from tests.bench.line import line
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0, a_fault, hear, report, world_of

NODES, FAULTS, RUNS = 10_000, 100, 20
GROWTH_GOAL = 1.25
"""Four times the nodes may cost five times the time: caches get colder."""
POLICY = msgspec.convert(
    {
        "breaker": {"nodes": "100%", "min_nodes": NODES},
        "common_cause": {"nodes": NODES},
        "budget": {"restarting": "100%", "deletes_per_min": 100 * NODES},
    },
    Policy,
)


def run() -> Iterator[str]:
    best: dict[int, float] = {}
    for parts in (4, 2, 1):
        nodes, faults = NODES // parts, FAULTS // parts
        values = measure(nodes, faults)
        best[parts] = min(values)  # neighbours on the machine take caches, and so only add
        yield line(f"plan_{nodes}", "s", values, note=f"of CPU; {nodes} nodes, {faults} with a fault")
    growth = best[1] / (4 * best[4])
    note = f"least time a node, {NODES} nodes to {NODES // 4}: {'linear' if growth <= GROWTH_GOAL else 'NOT linear'}"
    yield line("plan_growth", "ratio", [growth], goal=GROWTH_GOAL, note=note)


def measure(nodes: int, faults: int) -> list[float]:
    """CPU seconds of each plan: it waits for nothing, so what its neighbours do is no part of it. Raises RuntimeError
    when the plan is not the one that was asked for."""
    names = [f"node-{number:05}" for number in range(nodes)]
    objects = [node(name) for name in names]
    for number in range(0, nodes, 2):
        objects += job_with_pods(f"job-{number:05}", (names[number], names[number + 1]))
    world = world_of(objects, policy=POLICY)
    hear(world, *(report(name) for name in names))
    struck = names[:: nodes // faults]
    hear(world, *(report(name, a_fault(), seq=2) for name in struck))
    fold.advance(world, T0)
    taken: list[float] = []
    for _ in range(RUNS):
        state = world.snapshot()
        gc.collect()
        began = time.process_time()
        decided = plan(state, T0)
        taken.append(time.process_time() - began)
    asked = [sum(isinstance(action, kind) for action in decided.actions) for kind in (Isolate, OpenRecovery)]
    if asked != [faults, faults]:
        raise RuntimeError(f"{faults} faults ask for {asked[0]} taints and {asked[1]} restarts; {decided.holds[:3]}")
    return taken
