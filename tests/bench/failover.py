"""What it costs that the leading reconciler's machine is lost in the middle of an episode: a standby takes over.

The set-up of `restart`. Nobody gives the lease back, so the standby waits until it has run out (15 s after its last
renewal): until then it cannot know that the leader writes no more. What it needs beyond that is the figure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.event_to_taint import RULES, warden
from tests.bench.line import line, percentile
from tests.bench.restart import POD, left_alone, one_round
from tests.integration.daemons import Reconciler
from tests.integration.rig import Rig

ROUNDS = 2
LEASE_S = 15.0
GOAL_S = LEASE_S + 2.0


def run() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as directory,
        warden(Path(directory), POD) as (rig, leader, _, _notes),
    ):
        one_round(rig, leader, left_alone)  # the first one warms connections and caches up
        alone = [one_round(rig, leader, left_alone)[0] for _ in range(ROUNDS)]
        lost = []
        for number in range(ROUNDS):
            standby = rig.reconciler(policy=RULES, pod=f"{POD}-{number}")
            standby.wait_for("HTTP on port")

            def gone(_: Rig, leading: Reconciler, follower: Reconciler = standby) -> Reconciler:
                leading.kill_hard()
                return follower

            took, leader = one_round(rig, leader, gone)
            lost.append(took)
        cost = [took - percentile(alone, 0.5) for took in lost]
        yield line("failover_cost", "s", cost, goal=GOAL_S, note=f"{LEASE_S:g} s of it the lease of who is lost")
