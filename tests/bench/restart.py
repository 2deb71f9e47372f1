"""What it costs that the leading reconciler ends in the middle of an episode, right after its taint.

Every round breaks the chip under the same instance and measures until the instance serves again, on the real control
plane: with the leader left alone, told to stop while a standby waits (a rollout: the lease is given back), and killed
and started again within its pod (nobody gives the lease back). The cost is the median over that of the rounds left
alone. The kubelet's own second before it starts a container again is not in it; bytecode is compiled, as in an image.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.event_to_taint import CHIP, RULES, warden
from tests.bench.line import line, percentile
from tests.integration.checks import renewed
from tests.integration.daemons import Reconciler
from tests.integration.rig import HBM, PREFILL, Rig, our_taint
from tests.waiting import wait_until

ROUNDS = 3
GOAL_S = 2.0
POD = "3c7f0a5e-0000-4000-8000-000000000001"

Disturb = Callable[[Rig, Reconciler], Reconciler]
"""Ends the leader and answers with the one that follows."""


def left_alone(_: Rig, leader: Reconciler) -> Reconciler:
    return leader


def killed(rig: Rig, leader: Reconciler) -> Reconciler:
    leader.kill_hard()
    return rig.reconciler(policy=RULES, pod=POD)


def one_round(rig: Rig, leader: Reconciler, disturb: Disturb) -> tuple[float, Reconciler]:
    """Seconds from the chip's event until both new pods are Ready, and who leads then."""
    old = rig.running(PREFILL, 2)
    node, begun = old[f"{PREFILL}-master-0"]["spec"]["nodeName"], len(rig.journal.entries)

    def tainted() -> bool:
        fresh = [entry.object for entry in rig.journal.entries[begun:] if entry.kind == "Node"]
        return any(one["metadata"]["name"] == node and our_taint(one) for one in fresh)

    started = time.monotonic()
    rig.host(node).occur(CHIP, HBM)
    wait_until("the taint", tainted)
    follower = disturb(rig, leader)
    renewed(rig, PREFILL, old, timeout_s=50)
    took = time.monotonic() - started
    follower.leads()
    rig.host(node).recover(CHIP, HBM)
    wait_until("the release", lambda: rig.taint(node) is None, 60)
    return took, follower


def handed_over(rig: Rig, leader: Reconciler) -> tuple[float, Reconciler]:
    """A round in which a standby takes over from a leader that is told to stop."""
    standby = rig.reconciler(policy=RULES, pod=f"{POD}-{time.monotonic_ns()}")
    standby.wait_for("HTTP on port")

    def stop(_: Rig, leading: Reconciler) -> Reconciler:
        leading.signal(signal.SIGTERM)
        return standby

    return one_round(rig, leader, stop)


def run() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as directory,
        warden(Path(directory), POD) as (rig, leader, _, _notes),
    ):
        one_round(rig, leader, left_alone)  # the first one warms connections and caches up
        alone, killed_s, stopped = [], [], []
        for _ in range(ROUNDS):
            took, leader = one_round(rig, leader, left_alone)
            alone.append(took)
        for _ in range(ROUNDS):
            took, leader = one_round(rig, leader, killed)
            killed_s.append(took)
        for _ in range(ROUNDS):
            took, leader = handed_over(rig, leader)
            stopped.append(took)
        usual = percentile(alone, 0.5)
        yield line("restart_left_alone", "s", alone)
        yield line("restart_told_to_stop_cost", "s", [took - usual for took in stopped], goal=GOAL_S)
        yield line("restart_killed_cost", "s", [took - usual for took in killed_s], goal=GOAL_S)
