"""Every kind of drill on the real control plane, its report, and what is left when all parts are killed meanwhile."""

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from console.drills import KINDS
from console.lab.children import NPU_WARDEN
from shared.names import CODE_AGENT_SILENT, DRILL_ANNOTATION, ORIGIN_LABEL
from tests.integration.daemons import Daemon, Reconciler
from tests.integration.rig import HBM, PREFILL, Rig, uids
from tests.process import Process
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CHIP_KINDS = {
    "chip-fault": "80E18402@3",
    "card-lost": "40F84E00@3",
    "link-down": "81078603@3",
    "link-flap": "NW-LINK-FLAP@3",
    "driver-hang": "NW-MONITOR-BLIND@node",
}
BY_AGENT = [kind for kind, what in KINDS.items() if what.by == "agent"]


def argv(rig: Rig, reconciler: Daemon, *words: str) -> list[str]:
    return [*NPU_WARDEN, "drill", "run", *words, "--kubeconfig", str(rig.plane.kubeconfig), "--url", reconciler.url]


def run(rig: Rig, reconciler: Daemon, *words: str) -> tuple[int, dict[str, Any]]:
    command = argv(rig, reconciler, *words, "--format", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, f"{done.stderr}\n{rig.tails()}"
    return done.returncode, json.loads(done.stdout)


def begun(rig: Rig, reconciler: Daemon, kind: str, node: str, ttl: str) -> Process:
    """The command, running, and its drill in the node's report. Its objective keeps it from ending by itself."""
    last = "reverted" if KINDS[kind].held else "ready"
    words = [kind, "--node", node, "--effect", "real", "--expect", f"{last}=1m", "--ttl", ttl]
    words += [] if KINDS[kind].of_node else ["--chip", "3"]
    process = Process("drill", argv(rig, reconciler, *words), rig.directory / "drill.log")
    process.start()
    wait_until("the drill", lambda: rig.reported(node).drill, 60)
    return process


def test_each_kind_as_a_shadow_is_seen_told_and_taken_back(rig: Rig) -> None:
    rig.add_nodes(2)
    node = rig.nodes[0]
    rig.agent(node)
    reconciler = rig.reconciler()
    reconciler.leads()
    for kind, fault in CHIP_KINDS.items():
        code, report = run(rig, reconciler, kind, "--node", node, "--chip", "3", "--expect", "detect=60s,reverted=2m")
        assert (code, report["ok"], report["fault"]) == (0, True, fault), (
            f"{report['phases']} {report['why']}\n{rig.tails()}"
        )
        assert [one["phase"] for one in report["phases"]] == ["detect", "reverted"]
        assert rig.reported(node).faults == ()
        assert rig.taint(node) is None
        assert DRILL_ANNOTATION not in rig.node(node)["metadata"]["annotations"]


def test_a_pod_that_ends_restarts_its_instance(led: Rig) -> None:
    prefill, decode = led.mindie_pair()
    victim, pod = next(iter(sorted(prefill.items())))
    led.agent(pod["spec"]["nodeName"])
    assert led.leader is not None
    words = ["software-fault", "--pod", f"{led.namespace}/{victim}", "--force"]
    code, report = run(led, led.leader, *words)
    assert (code, report["ok"]) == (0, True), report
    assert any(text.startswith("restart ") for text in report["would"]), report
    assert uids(led.pods(PREFILL)) == uids(prefill), "a shadow ends nothing"
    code, report = run(led, led.leader, *words, "--effect", "real", "--expect", "detect=60s,delete=2m,ready=3m")
    assert (code, report["ok"]) == (0, True), f"{report}\n{led.tails()}"
    assert [one["phase"] for one in report["phases"]] == ["detect", "delete", "ready"]
    recovery = led.recovered()
    assert (recovery["spec"]["origin"], recovery["spec"]["cause"]["kind"]) == ("drill", "Software")
    assert not set(uids(prefill).values()) & set(uids(led.running(PREFILL, 2)).values())
    assert uids(led.pods("decode")) == uids(decode)
    told = led.api.get(f"/api/v1/namespaces/{led.namespace}/events?labelSelector={ORIGIN_LABEL}=drill")["items"]
    assert {one["type"] for one in told} == {"Normal"}
    assert {"RecoveryStarted", "Recovered"} <= {one["reason"] for one in told}


def test_silence_is_held_and_ends_with_the_first_real_fault(led: Rig) -> None:
    """Nobody is silent in a leader's first minute: run alone, this test waits for its end."""
    led.add_nodes(2)
    node, reconciler = led.nodes[0], led.leader
    assert reconciler is not None
    led.agent(node)
    words = ["node-silent", "--node", node, "--effect", "real"]
    code, report = run(led, reconciler, *words, "--expect", "detect=3m,reverted=4m")
    assert (code, report["ok"]) == (0, True), f"{report}\n{led.tails()}"
    assert report["fault"] == f"{CODE_AGENT_SILENT}@node"
    assert report["held"] == "silence is not death, taints and pods stay as they are"
    assert led.taint(node) is None
    drill = begun(led, reconciler, "node-silent", node, "3m")
    led.host(node).occur(5, HBM)
    wait_until("it speaks", lambda: [fault.id for fault in led.reported(node).faults] == [f"{HBM}@5"], 40)
    assert led.reported(node).drill is None
    wait_until("the real fault isolates the node", lambda: led.taint(node), 40)
    wait_until("the command has ended", lambda: not drill.running, 60)
    ended, refused = "has ended it: it has something real to report", "refused: a real fault is open"
    assert ended in drill.tail() or refused in drill.tail(), "as the command had seen it running, or not yet"


@pytest.mark.parametrize("kind", BY_AGENT)
def test_every_part_may_be_killed_and_nothing_stays(rig: Rig, kind: str) -> None:
    """All three of them, in one drill: the command, the agent, the reconciler. A real fault is there all along."""
    rig.add_nodes(2)
    node = rig.nodes[0]
    agent = rig.agent(node)
    reconciler = rig.reconciler()
    reconciler.leads()
    drill = begun(rig, reconciler, kind, node, "15s")
    before = rig.reported(node)
    assert before.drill is not None
    os.kill(drill.pid, signal.SIGKILL)
    drill.kill()
    agent.kill_hard()
    reconciler.kill_hard()
    agent.start()
    wait_until("the next process of the agent", lambda: rig.reported(node).session != before.session, 60)
    if kind == "node-silent":
        assert rig.reported(node).drill is None, "whoever is started anew speaks"
    rig.host(node).occur(5, HBM)
    real = f"{HBM}@5"
    wait_until("the real fault", lambda: [f.id for f in rig.reported(node).faults if f.origin == "probe"] == [real], 60)
    wait_until("the drill has ended", lambda: rig.reported(node).drill is None, 60)
    assert [fault.id for fault in rig.reported(node).faults] == [real]
    assert kind == "node-silent" or time.time() > before.drill.until - 1
    rig.forget_leader()
    successor = rig.reconciler()
    successor.leads()
    wait_until("the real fault isolates the node", lambda: (rig.taint(node) or {}).get("value") == "SeparateNPU", 60)
    wait_until("its time is over", lambda: {one["state"] for one in _drills(successor)} <= {"over"}, 60)


def _drills(reconciler: Reconciler) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(reconciler.get("/v1/drills"))["items"]
    return items
