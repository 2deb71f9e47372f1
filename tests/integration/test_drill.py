"""Drills on the real control plane: the whole path, and what is left when any part is killed meanwhile."""

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from console.lab.children import NPU_WARDEN
from shared.model import NodeReport
from shared.names import DRILL_ANNOTATION, DRILL_REPORT_ANNOTATION
from tests.integration.daemons import Daemon
from tests.integration.rig import HBM, PREFILL, Rig
from tests.process import Process
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

FAULT = f"{HBM}@3"


def argv(rig: Rig, reconciler: Daemon, *words: str) -> list[str]:
    return [*NPU_WARDEN, "drill", *words, "--kubeconfig", str(rig.plane.kubeconfig), "--url", reconciler.url]


def run(rig: Rig, reconciler: Daemon, node: str, *words: str) -> tuple[int, dict[str, Any], str]:
    command = argv(rig, reconciler, "run", "chip-fault", "--node", node, "--chip", "3", "--format", "json", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.stdout, f"{done.stderr}\n{rig.tails()}"
    return done.returncode, json.loads(done.stdout), done.stderr


def begun(rig: Rig, reconciler: Daemon, node: str, *words: str) -> Process:
    """The command, running, its fault in the node's report. It waits for an objective that never comes."""
    more = ["--chip", "3", "--effect", "real", "--expect", "ready=1m", *words]
    command = argv(rig, reconciler, "run", "chip-fault", "--node", node, *more)
    process = Process("drill", command, rig.directory / "drill.log")
    process.start()
    wait_until("the fault", lambda: FAULT in faults(rig.reported(node)), 30)
    return process


def faults(report: NodeReport) -> dict[str, str]:
    return {fault.id: fault.origin for fault in report.faults}


def request(rig: Rig, node: str) -> str | None:
    found: str | None = rig.node(node)["metadata"]["annotations"].get(DRILL_ANNOTATION)
    return found


def test_a_real_drill_takes_the_whole_path_and_is_labelled(led: Rig) -> None:
    prefill, _ = led.mindie_pair()
    node = next(iter(prefill.values()))["spec"]["nodeName"]
    led.agent(node)
    assert led.leader is not None
    goals = "detect=20s,taint=25s,delete=40s,ready=60s,reverted=80s"
    code, report, _ = run(led, led.leader, node, "--effect", "real", "--ttl", "2m")
    assert (code, "is the last Ready instance of" in report["why"]) == (1, True), report
    code, report, said = run(led, led.leader, node, "--effect", "real", "--force", "--expect", goals, "--ttl", "2m")
    assert (code, report["ok"]) == (0, True), f"{report}{said}\n{led.tails()}"
    assert [one["phase"] for one in report["phases"]] == ["detect", "taint", "delete", "ready", "reverted"]
    assert led.recovered()["spec"]["origin"] == "drill"
    assert node not in {pod["spec"]["nodeName"] for pod in led.running(PREFILL, 2).values()}
    kept = json.loads(led.node(node)["metadata"]["annotations"][DRILL_REPORT_ANNOTATION])
    assert kept["recoveries"] == report["recoveries"]
    assert request(led, node) is None
    wait_until("the node is given back", lambda: led.taint(node) is None, 30)
    again = subprocess.run(
        argv(led, led.leader, "report", "--node", node)[:-2], capture_output=True, text=True, timeout=30, check=True
    )
    assert f"drill {report['drill']}: chip-fault {FAULT} on {node}, effect real: ok" in again.stdout


def test_the_command_may_be_interrupted_or_killed(rig: Rig) -> None:
    rig.add_nodes(2)
    node = rig.nodes[0]
    rig.agent(node)
    reconciler = rig.reconciler()
    reconciler.leads()
    first = begun(rig, reconciler, node)
    os.kill(first.pid, signal.SIGINT)
    wait_until("it has taken the drill back", lambda: not first.running and not faults(rig.reported(node)), 40)
    assert request(rig, node) is None
    second = begun(rig, reconciler, node, "--ttl", "10s")
    os.kill(second.pid, signal.SIGKILL)
    second.kill()
    wait_until("it has ended at its time", lambda: not faults(rig.reported(node)), 40)
    assert rig.reported(node).drill is None


@pytest.mark.parametrize("victim", ["agent", "reconciler", "redis"])
def test_any_part_may_be_killed(rig: Rig, victim: str) -> None:
    """The drill ends at its time, and a real fault of the other chip is there all along."""
    rig.add_nodes(2)
    node = rig.nodes[0]
    agent = rig.agent(node)
    reconciler = rig.reconciler()
    reconciler.leads()
    drill = begun(rig, reconciler, node, "--ttl", "15s")
    os.kill(drill.pid, signal.SIGKILL)
    drill.kill()
    before = rig.reported(node)
    match victim:
        case "agent":
            agent.kill_hard()
            agent.start()
            wait_until("the next process", lambda: rig.reported(node).session != before.session, 40)
        case "reconciler":
            reconciler.kill_hard()
        case "redis":
            rig.broker.stop()
            rig.broker.start()
            wait_until("it reports again", lambda: rig.redis.keys("npuwarden:report:*"), 40)
    rig.host(node).occur(5, HBM)
    wait_until("the real fault", lambda: faults(rig.reported(node)).get(f"{HBM}@5") == "probe", 40)
    wait_until("the drill has ended", lambda: faults(rig.reported(node)) == {f"{HBM}@5": "probe"}, 40)
    assert time.time() > before.drill.until - 1  # type: ignore[union-attr]
    assert rig.reported(node).drill is None
