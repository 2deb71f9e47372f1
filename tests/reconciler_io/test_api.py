"""The HTTP API of a running replica: what it knows, what it would do, and why not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis.asyncio

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.config import HttpConfig, KubeConfig, PolicyFile, ReconcilerConfig
from reconciler.kube.client import connected
from reconciler.service import Service
from shared import wire
from shared.model import ChangeNote
from shared.names import EVENTS_STREAM, LEASE, NAMESPACE, report_key
from shared.redis_url import RedisSettings
from tests.reconciler_io.conftest import Kubeconfig, node
from tests.reconciler_io.test_process import FAULT, agents
from tests.redis_server import RedisServer
from tests.waiting import eventually

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "server-0-master-0", "namespace": "mindie"},
    "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "x"}]},
    "status": {"phase": "Running"},
}


class Asker:
    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self.service, self._session = service, session

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._session.get(f"http://127.0.0.1:{self.service.port}{path}") as answer:
            text = await answer.text()
            return answer.status, (await answer.json()) if "json" in answer.content_type else text


@contextlib.asynccontextmanager
async def serving(config: ReconcilerConfig) -> AsyncIterator[Asker]:
    stop = asyncio.Event()
    async with connected(config.kube.kubeconfig) as client, aiohttp.ClientSession() as session:
        service = Service(config, client, PolicyFile(config.policy))
        task = asyncio.create_task(service.run(stop))
        try:
            await eventually("it serves", lambda: service.port or task.done())
            yield Asker(service, session)
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text("")
    return path


@pytest.fixture
def config(policy: Path, server: ApiServer, kubeconfig: Kubeconfig, redis_server: RedisServer) -> ReconcilerConfig:
    return ReconcilerConfig(
        kube=KubeConfig(kubeconfig=str(kubeconfig(server.url))),
        redis=RedisSettings(url=redis_server.url),
        http=HttpConfig(listen="127.0.0.1:0"),
        policy=str(policy),
    )


async def test_the_leader_answers(config: ReconcilerConfig, store: Store, redis_server: RedisServer) -> None:
    store.load(node("a"))
    store.load(node("b"))
    store.load(POD)
    async with agents(redis_server) as say, serving(config) as ask:
        await say("a", 1, FAULT)
        await say("b", 1)
        await eventually("it leads", lambda: ask.service.newest())
        await eventually("it has heard", lambda: len(ask.service.mirror.world.heard) == 2)
        await eventually("it has isolated", lambda: ask.service.mirror.world.memory.tainted_since)

        status, nodes = await ask.get("/v1/nodes")
        assert status == 200
        assert {item["name"]: item["verdict"] for item in nodes["items"]} == {"a": "fault", "b": "ok"}
        assert nodes["next"] is None
        status, one = await ask.get("/v1/nodes/a")
        assert one["taint"] == {"value": "SeparateNPU", "effect": "NoSchedule"}
        assert one["released"] == []
        status, warden = await ask.get("/v1/warden")
        leader = warden.pop("leader")
        assert leader == ask.service.holder
        nothing = {"paused": None, "observe_only": False, "policy_error": None}
        assert warden == {**nothing, "reports_ok": True, "watch_ok": True}
        assert (await ask.get("/v1/nodes/absent"))[0] == 404
        status, faults = await ask.get("/v1/faults")
        assert [(item["node"], item["id"]) for item in faults["items"]] == [("a", "80E18402@3")]
        assert (await ask.get("/v1/recoveries"))[1] == {"items": [], "next": None}

        status, plan = await ask.get("/v1/plan")
        assert status == 200
        assert {"subject", "reason", "message"} <= plan["holds"][0].keys()
        status, why = await ask.get("/v1/why?pod=mindie/server-0-master-0")
        assert [item["reason"] for item in why["verdicts"]] == ["chip-not-used"]
        assert why["node"]["name"] == "a"
        status, why = await ask.get("/v1/why?node=a")
        assert why["node"]["faults"][0]["code"] == "80E18402"
        status, why = await ask.get("/v1/why?workload=mindie/server-0-master-0")
        assert why["pods"] == ["mindie/server-0-master-0"]
        for query, expected in (("", 400), ("?node=a&pod=b/c", 400), ("?node=absent", 404), ("?pod=x/y", 404)):
            assert (await ask.get(f"/v1/why{query}"))[0] == expected

        assert (await ask.get("/livez"))[0] == 200
        assert (await ask.get("/readyz"))[0] == 200
        status, metrics = await ask.get("/metrics")
        assert "npuwarden_reconciler_leader 1.0" in metrics
        assert "npuwarden_reconciler_report_to_taint_seconds_count 1.0" in metrics
        assert 'npuwarden_reconciler_actions_total{kind="Isolate",outcome="done"} 1.0' in metrics


async def test_a_message_that_could_not_be_used_is_shown_with_its_node(
    config: ReconcilerConfig, store: Store, redis_server: RedisServer
) -> None:
    store.load(node("a"))
    async with agents(redis_server) as say, serving(config) as ask:
        await say("a", 1)
        await eventually("it has heard", lambda: ask.service.mirror.world.heard)
        client = redis.asyncio.Redis.from_url(redis_server.url)
        await client.set(report_key("a"), b"garbage")
        await client.xadd(EVENTS_STREAM, {"note": wire.encode(ChangeNote(1, "a", "one", 2))})
        await client.aclose()
        await eventually("it is kept aside", ask.service.bad_messages)
        _, shown = await ask.get("/v1/nodes/a")
        assert shown["bad_messages"][0]["reason"] == "malformed"


async def test_a_replica_that_waits_says_who_leads(config: ReconcilerConfig, store: Store) -> None:
    store.load(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": NAMESPACE},
            "spec": {"holderIdentity": "the-other", "leaseDurationSeconds": 3600},
        }
    )
    async with serving(config) as ask:
        await eventually("it has looked", lambda: ask.service.leader() == "the-other")
        assert (await ask.get("/readyz"))[0] == 200
        status, problem = await ask.get("/v1/nodes")
        assert status == 503
        assert "the-other leads now" in problem["detail"]
        assert (await ask.get("/v1/recoveries"))[0] == 200


async def test_a_replica_that_loses_the_lease_stops_and_begins_anew_when_it_is_free(
    config: ReconcilerConfig, store: Store, redis_server: RedisServer
) -> None:
    store.load(node("a"))
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"

    def give_to(holder: str) -> None:
        lease = store.get("leases", NAMESPACE, LEASE)
        assert lease is not None
        spec = {**lease["spec"], "holderIdentity": holder, "leaseDurationSeconds": 3600}
        assert store.request("PUT", path, body={**lease, "spec": spec}).ok

    async with agents(redis_server) as say, serving(config) as ask:
        await say("a", 1, FAULT)
        await eventually("it leads", lambda: ask.service.newest())
        began = ask.service.mirror.world.leader_since
        give_to("the-other")
        await eventually("it has stopped", lambda: ask.service.newest() is None)
        assert ask.service.inbox is None
        assert ask.service.lease.valid_until == 0
        give_to("")
        await eventually("it leads again", lambda: ask.service.newest())
        assert ask.service.mirror.world.leader_since > began  # with a first minute of its own
        await eventually("it hears anew", lambda: "a" in ask.service.mirror.world.heard)


async def test_not_ready_before_the_cluster_is_known(config: ReconcilerConfig, server: ApiServer) -> None:
    server.down = True
    async with serving(config) as ask:
        status, problem = await ask.get("/readyz")
        assert status == 503
        assert "nodes" in problem["detail"]
        server.down = False
        await eventually("it leads", lambda: ask.service.newest())
        assert (await ask.get("/readyz"))[0] == 200


def observe(policy: Path, only: str) -> None:
    policy.write_text(f"observe_only = {only}\n")


def hold_down(policy: Path, seconds: str) -> None:
    policy.write_text(f"[isolate]\nhold_down_s = {seconds}\n")


async def test_a_replica_that_begins_with_a_bad_policy_observes_and_is_not_ready_until_it_is_mended(
    config: ReconcilerConfig,
    policy: Path,
    store: Store,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconciler.service.GIVE_WAY_S", 0.2)  # there is no other replica
    hold_down(policy, "'long'")
    store.load(node("a"))
    async with agents(redis_server) as say, serving(config) as ask:
        await say("a", 1, FAULT)
        await eventually("it has planned", lambda: (newest := ask.service.newest()) and newest[1].holds)
        status, why = await ask.get("/readyz")
        assert (status, why["title"]) == (503, "No policy")
        assert all(word in why["detail"] for word in ("policy.toml: line 2", "hold_down_s", "nothing is done"))
        warden = (await ask.get("/v1/warden"))[1]
        assert warden["observe_only"] is True
        assert "npuwarden_reconciler_policy_refused 1.0" in (await ask.get("/metrics"))[1]
        held = store.get("nodes", "", "a")
        assert held is not None
        assert not held["spec"].get("taints")
        hold_down(policy, "60")
        await eventually("it acts", lambda: ask.service.mirror.world.memory.tainted_since)
        assert (await ask.get("/readyz"))[0] == 200


async def test_observe_only_writes_nothing_and_a_policy_change_acts_at_once(
    config: ReconcilerConfig,
    policy: Path,
    store: Store,
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    observe(policy, "true")
    store.load(node("a"))
    async with agents(redis_server) as say, serving(config) as ask:
        await say("a", 1, FAULT)
        await eventually("it says what it would do", lambda: "observe-only: Node/a: would do: Isolate" in caplog.text)
        held = store.get("nodes", "", "a")
        assert held is not None
        assert not held["spec"].get("taints")
        assert (await ask.get("/v1/warden"))[1]["observe_only"] is True
        observe(policy, "perhaps")
        await eventually("it refuses", lambda: ask.service.policy_error())
        assert "policy.toml" in (await ask.get("/v1/warden"))[1]["policy_error"]
        observe(policy, "false")
        await eventually("it acts", lambda: ask.service.mirror.world.memory.tainted_since)
