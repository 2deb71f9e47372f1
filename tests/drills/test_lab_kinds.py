"""Drills that no sensor shows, on the whole warden over simulated hosts: each kind, its report, and what is left."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

from console.lab import workloads
from console.lab.demo import everything_ready
from console.lab.rig import LabRig, lab_rig
from console.lab.watching import until
from console.lab.workloads import instance
from shared.names import DRILL_REPORT_ANNOTATION, ORIGIN_LABEL
from tests.drills.lab import NODE, annotation, command, drill, pods, tainted

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(300)]

PREFILL = "mindie/prefill-0"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[LabRig]:
    async with lab_rig(tmp_path, nodes=4) as rig:
        workloads.apply(rig.cluster)
        await everything_ready(rig, 30)
        yield rig


def a_pod(rig: LabRig) -> dict[str, Any]:
    return next(pod for pod in rig.cluster.store.objects("pods") if instance(pod) == PREFILL)


def key_of(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def test_a_pod_that_ends_is_restarted_with_its_instance(rig: LabRig) -> None:
    before, victim = pods(rig), a_pod(rig)
    code, report, err = await drill(rig, "software-fault", "--pod", key_of(victim), "--expect", "detect=30s", node=None)
    assert (code, report["ok"], report["fault"]) == (0, True, f"pod {key_of(victim)}"), (report, err)
    assert any(text.startswith("restart mindie/prefill-0") for text in report["would"]), report
    assert pods(rig) == before, "a shadow ends nothing"
    real = ("software-fault", "--pod", key_of(victim), "--effect", "real")
    code, report, _ = await drill(rig, *real, node=None)
    assert (code, "is the last Ready instance of" in report["why"]) == (1, True), report
    assert pods(rig) == before
    goals = "detect=30s,delete=60s,ready=90s"
    code, report, err = await drill(rig, *real, "--force", "--expect", goals, node=None)
    assert (code, report["ok"]) == (0, True), f"{report} {err}"
    assert [one["phase"] for one in report["phases"]] == ["detect", "delete", "ready"]
    assert {before[uid] for uid in before.keys() - pods(rig).keys()} == {PREFILL}
    (recovery,) = rig.cluster.store.objects("recoveries")
    assert (recovery["spec"]["origin"], recovery["spec"]["cause"]["kind"]) == ("drill", "Software")
    told = [one for one in rig.cluster.store.objects("events") if one["reason"].startswith("Recover")]
    assert {(one["metadata"]["labels"][ORIGIN_LABEL], one["type"]) for one in told} == {("drill", "Normal")}
    assert all(one["message"].startswith("drill: ") for one in told)
    home = victim["spec"]["nodeName"]
    assert annotation(rig, home) is None
    assert not tainted(rig, home)


async def answers(rig: LabRig) -> bool:
    try:
        async with asyncio.timeout(1):
            return bool(await rig.redis.ping())
    except (TimeoutError, RedisError):
        return False


async def seen(rig: LabRig, *, answering: bool) -> None:
    for _ in range(100):
        if await answers(rig) is answering:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"Redis answers: {not answering}")


async def test_redis_goes_on_after_the_command_was_killed(rig: LabRig) -> None:
    process = await command(rig, "run", "redis-down", "--node", NODE, "--ttl", "30s", "--expect", "reverted=1m")
    await until(rig.cluster.store, lambda: '"go": true' in (annotation(rig) or ""), 60, lambda: "it has not begun")
    asked = json.loads(annotation(rig) or "")
    process.kill()
    await process.communicate()
    await seen(rig, answering=False)
    await seen(rig, answering=True)
    assert time.time() > asked["until"] - 1, "nobody has ended it before"


async def test_silence_and_a_lost_redis_change_nothing(rig: LabRig) -> None:
    before = pods(rig)
    goals = "detect=60s,reverted=120s"
    code, report, err = await drill(rig, "redis-down", "--ttl", "2m", "--expect", goals)
    assert (code, report["ok"]) == (0, True), f"{report} {err}"
    assert "nothing new is decided from silence" in report["held"]
    assert await rig.redis.ping()
    assert annotation(rig) is None
    goals = "detect=150s,reverted=200s"
    code, report, err = await drill(rig, "node-silent", "--effect", "real", "--expect", goals)
    assert (code, report["ok"]) == (0, True), f"{report} {err}"
    assert [one["phase"] for one in report["phases"]] == ["detect", "reverted"]
    assert report["held"] == "silence is not death, taints and pods stay as they are"
    assert pods(rig) == before
    assert not any(tainted(rig, node) for node in rig.hosts)
    assert rig.cluster.store.objects("recoveries") == []
    (node,) = [one for one in rig.cluster.store.objects("nodes") if one["metadata"]["name"] == NODE]
    kept = json.loads(node["metadata"]["annotations"][DRILL_REPORT_ANNOTATION])
    assert kept["held"] == report["held"]
