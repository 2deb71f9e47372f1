"""How long the reconciler's decision takes: `plan` over 10,000 nodes of which 100 have a fault.

The pure functions, nothing else: every node has eight chips, an agent's report and one pod of a two-pod job with all of
them. The brakes are off, so that each fault asks for its taint and its restart. `plan`: the first plan of a leader.
`round`: all that is decided in a later round, in which ten heartbeats and one more fault have come in: memory follows
the clock, a snapshot, a plan that goes on from the last round. The same at a half and a quarter of the size, with as
many faults in proportion, tells whether the time grows as the cluster does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import msgspec

from reconciler.core import fold
from reconciler.core.actions import Isolate, OpenRecovery, Plan
from reconciler.core.known import Known
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from reconciler.core.state import World
from tests.bench.line import growth, line
from tests.core.build import job_with_pods
from tests.core.well import well
from tests.core.worlds import a_fault, after, hear, report, world_of

NODES, FAULTS, RUNS = 10_000, 100, 10
POLICY = msgspec.convert(
    {
        "breaker": {"nodes": "100%", "min_nodes": NODES},
        "common_cause": {"nodes": NODES},
        "budget": {"restarting": "100%", "deletes_per_min": 100 * NODES},
    },
    Policy,
)


def run() -> Iterator[str]:
    least: dict[str, dict[int, float]] = {"plan": {}, "round": {}}
    for parts in (4, 2, 1):
        nodes, faults = NODES // parts, FAULTS // parts
        world, names = fleet_of(nodes)
        for name, values in (("round", rounds(world, names, faults)), ("plan", measure(world, faults))):
            least[name][nodes] = min(values)  # neighbours on the machine take caches, and so only add
            yield line(f"{name}_{nodes}", "s", values, note=f"of CPU; {nodes} nodes, {faults} with a fault")
    for name, cost in least.items():
        yield growth(f"{name}_growth", cost)


def fleet_of(nodes: int) -> tuple[World, list[str]]:
    """Nodes that are well, as they are once the warden has looked at each."""
    names = [f"node-{number:05}" for number in range(nodes)]
    objects = [well(name) for name in names]
    for number in range(0, nodes, 2):
        objects += job_with_pods(f"job-{number:05}", (names[number], names[number + 1]))
    world = world_of(objects, policy=POLICY)
    hear(world, *(report(name) for name in names))
    return world, names


def rounds(world: World, names: list[str], faults: int) -> list[float]:
    """CPU seconds of each round: they wait for nothing, so what neighbours do is no part of it. The world has `faults`
    faults at the end."""
    known, taken, struck = Known(), list[float](), names[:: len(names) // faults]
    hear(world, *(report(name, a_fault(), seq=2) for name in struck[RUNS:]))
    for number in range(RUNS + 1):
        now = after(number)
        if number:
            hear(world, *(report(name, seq=1 + number) for name in names[1:11]), at=now)
            hear(world, report(struck[number - 1], a_fault(), seq=2), at=now)
        gc.collect()
        began = time.process_time()
        fold.advance(world, now, known)
        decided = plan(world.snapshot(), now, known)
        if number:  # the first is a full one
            taken.append(time.process_time() - began)
    _check(decided, faults)
    return taken


def measure(world: World, faults: int) -> list[float]:
    """CPU seconds of each full plan."""
    now, taken = after(RUNS), list[float]()
    for _ in range(RUNS):
        state = world.snapshot()
        gc.collect()
        began = time.process_time()
        decided = plan(state, now)
        taken.append(time.process_time() - began)
    _check(decided, faults)
    return taken


def _check(decided: Plan, faults: int) -> None:
    """Raises RuntimeError when the plan is not the one that was asked for."""
    asked = [sum(isinstance(action, kind) for action in decided.actions) for kind in (Isolate, OpenRecovery)]
    if asked != [faults, faults]:
        raise RuntimeError(f"{faults} faults ask for {asked[0]} taints and {asked[1]} restarts; {decided.holds[:3]}")
