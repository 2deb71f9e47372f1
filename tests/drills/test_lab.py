"""Drills on the whole warden over simulated hosts and a simulated cluster: each kind, its report, and what is left."""

import json
from pathlib import Path

import pytest

from console.lab import workloads
from console.lab.cluster.podstatus import chips_of
from console.lab.demo import everything_ready
from console.lab.rig import LabRig, lab_rig
from console.lab.watching import until
from console.lab.workloads import instance
from tests.drills.lab import NODE, annotation, command, drill, pods, shown_faults, tainted

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(240)]

SHADOWS = {
    "chip-fault": "80E18402@0",
    "card-lost": "40F84E00@0",
    "link-down": "81078603@0",
    "link-flap": "NW-LINK-FLAP@0",
    "driver-hang": "NW-MONITOR-BLIND@node",
}


async def test_each_kind_as_a_shadow_is_seen_told_and_taken_back(tmp_path: Path) -> None:
    async with lab_rig(tmp_path, nodes=2) as rig:
        workloads.apply(rig.cluster)
        await everything_ready(rig, 30)
        before = pods(rig)
        for kind, fault in SHADOWS.items():
            code, report, _ = await drill(rig, kind, "--expect", "detect=25s,reverted=60s")
            assert (code, report["ok"], report["fault"]) == (0, True, fault), report
            assert [one["phase"] for one in report["phases"]] == ["detect", "reverted"]
            assert await shown_faults(rig) == set()
            assert annotation(rig) is None
            assert not tainted(rig)
            if kind == "chip-fault":
                assert f"taint {NODE} SeparateNPU:NoSchedule" in report["would"]
                assert any(text.startswith("restart ") for text in report["would"])
        assert pods(rig) == before


async def test_a_real_drill_restarts_the_instance_and_the_node_is_given_back(tmp_path: Path) -> None:
    async with lab_rig(tmp_path, nodes=4) as rig:
        workloads.apply(rig.cluster)
        await everything_ready(rig, 30)
        before = pods(rig)
        victim = next(pod for pod in rig.cluster.store.objects("pods") if instance(pod) == "mindie/prefill-0")
        home, chip = victim["spec"]["nodeName"], str(chips_of(victim)[0])
        code, report, _ = await drill(rig, "chip-fault", "--chip", chip, "--effect", "real", node=home)
        assert (code, "is the last Ready instance of" in report["why"]) == (1, True), report
        goals = "detect=60s,taint=90s,delete=2m,ready=3m"
        code, report, err = await drill(
            rig, "chip-fault", "--chip", chip, "--effect", "real", "--force", "--expect", goals, node=home
        )
        assert (code, report["ok"]) == (0, True), json.dumps(report) + err
        assert [one["phase"] for one in report["phases"]] == ["detect", "taint", "delete", "ready", "reverted"]
        assert report["recoveries"]
        gone_pods = {before[uid] for uid in before.keys() - pods(rig).keys()}
        assert gone_pods == {"mindie/prefill-0"}
        recoveries = rig.cluster.store.objects("recoveries")
        assert {one["spec"]["origin"] for one in recoveries} == {"drill"}
        await until(rig.cluster.store, lambda: not tainted(rig, home), 30, lambda: f"{home} keeps its taint")


async def say(rig: LabRig, *args: str) -> tuple[int, str]:
    process = await command(rig, *args)
    out, err = await process.communicate()
    return process.returncode or 0, (out + err).decode()


async def test_it_is_listed_kept_alone_and_stopped(tmp_path: Path) -> None:
    async with lab_rig(tmp_path, nodes=2) as rig:
        nothing = await say(rig, "list")
        assert nothing == (0, "no drill is asked for, none runs\n")
        first = await command(rig, "run", "driver-hang", "--node", NODE, "--expect", "ready=1m", "--effect", "real")
        await until(rig.cluster.store, lambda: tainted(rig), 40, lambda: "the drill taints nothing")
        code, listed = await say(rig, "list")
        assert code == 0
        assert " running " in listed
        assert "NW-MONITOR-BLIND@node" in listed
        code, taken = await say(rig, "run", "chip-fault", "--node", NODE)
        assert code == 2
        assert f"`npu-warden drill stop --node {NODE}` ends it" in taken
        code, report, _ = await drill(rig, "chip-fault", node="node-1")
        assert (code, report["ok"]) == (1, False)
        assert "one at a time" in report["why"]
        code, stopped = await say(rig, "stop", "--node", NODE)
        assert (code, "is ended" in stopped) == (0, True)
        out, _ = await first.communicate()
        assert "it was ended by somebody else" in out.decode()
        assert await shown_faults(rig) == set()
        code, kept = await say(rig, "report", "--node", NODE, "--format", "markdown")
        assert "| detect |" in kept
        rig.hosts["node-1"].occur(2, "80E18402")
        await until(rig.cluster.store, lambda: tainted(rig, "node-1"), 30, lambda: "the real fault taints nothing")
        code, report, _ = await drill(rig, "chip-fault")
        assert (code, report["why"]) == (
            1,
            "refused: a real fault is open: 80E18402@2 on node-1; --force drills all the same",
        )
        code, report, _ = await drill(rig, "chip-fault", "--force", "--expect", "detect=25s")
        assert (code, report["ok"]) == (0, True), report
