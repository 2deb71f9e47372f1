"""Coverage of a whole lab cluster, asked of a running reconciler: over HTTP and by the command line."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from console.lab.cluster.lab import LabCluster
from console.lab.cluster.workloads import mindie_job, mindie_manager, storm_service
from console.main import main
from reconciler.config import PolicyFile, load_config
from reconciler.kube.client import connected
from reconciler.service import Service
from shared.names import NAMESPACE
from tests.reconciler_io.conftest import Kubeconfig
from tests.reconciler_io.daemon import write_config
from tests.redis_server import RedisServer
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PODS = 11


@pytest.fixture
async def lab() -> AsyncIterator[LabCluster]:
    """Four nodes of eight chips; workloads that would be saved, and such that would not."""
    async with LabCluster(nodes=4, chips=8) as lab:
        lab.store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        lab.apply(mindie_job("good", namespace="serve", npus=2))
        lab.apply(mindie_manager("router", namespace="serve"))
        lab.apply(mindie_job("typo", namespace="other", npus=2, labels={"fault-scheduling": "Force"}))
        lab.apply(mindie_job("crashes", namespace="other", pods=1, npus=2, labels={"fault-retry-times": ""}))
        lab.apply(storm_service("chat", namespace="aibrix", npus=2))
        yield lab


@pytest.fixture
async def url(lab: LabCluster, tmp_path: Path, kubeconfig: Kubeconfig, redis_server: RedisServer) -> AsyncIterator[str]:
    """A reconciler that leads on the lab cluster and has seen all its pods bound."""
    file = write_config(tmp_path / "reconciler.toml", kubeconfig=kubeconfig(lab.url), redis_url=redis_server.url)
    config, stop = load_config(file), asyncio.Event()
    async with connected(config.kube.kubeconfig) as client:
        service = Service(config, client, PolicyFile(config.policy))
        task = asyncio.create_task(service.run(stop))
        try:
            await eventually("it leads", lambda: task.done() or (service.port and service.newest()))
            await eventually("it sees the pods bound", lambda: _bound(service) == PODS)
            yield f"http://127.0.0.1:{service.port}"
        finally:
            stop.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task, 10)


def _bound(service: Service) -> int:
    return sum(bool(pod.node) for pod in service.watched().pods.values())


async def get(url: str, path: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}{path}") as answer:
        return answer.status, json.loads(await answer.text())


async def test_over_http(url: str) -> None:
    status, found = await get(url, "/v1/coverage")
    assert (status, found["next"]) == (200, None)
    rows = {(item["namespace"], item["workload"], unit): item for item in found["items"] for unit in item["units"]}
    assert {(namespace, name) for namespace, name, _ in rows} == {
        ("serve", "good"),
        ("serve", "router"),
        ("other", "typo"),
        ("other", "crashes"),
        ("aibrix", "chat"),
    }
    good = rows["serve", "good", "serve/good"]
    assert (good["gaps"], good["pods"], good["npus"], good["level"]) == ([], 2, 4, "Job")
    routers = [item for item in found["items"] if item["workload"] == "router"]
    assert [(item["level"], item["unit_count"], item["chip"]) for item in routers] == [("Pod", 2, None)]

    status, found = await get(url, "/v1/coverage?only=gaps")
    assert {item["workload"]: [gap["reason"] for gap in item["gaps"]] for item in found["items"]} == {
        "typo": ["label-invalid"],
        "crashes": ["retry-disabled"],
    }
    assert [item["workload"] for item in (await get(url, "/v1/coverage?namespace=aibrix"))[1]["items"]] == ["chat"]
    status, problem = await get(url, "/v1/coverage?only=holes")
    assert (status, problem["status"]) == (400, 400)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 1, ["serve/good", "other/typo", "label-invalid", "'Force' is none of", "first crash ends the job"]),
        (["--namespace", "serve"], 0, ["serve/good", "serve/router", "every workload is covered"]),
    ],
)
async def test_by_the_command_line(args: list[str], code: int, words: list[str], url: str) -> None:
    command = ["coverage", "--url", url, *args]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == code, result.output
    assert all(word in result.output for word in words), result.output
