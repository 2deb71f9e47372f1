"""Outages one by one, where a proxy or a name that nobody knows makes them: what is read stays right or is not used."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

from console.lab import rig_files
from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.core.calls import Call
from reconciler.core.resources import NODE
from reconciler.core.state import World
from reconciler.inbox import Inbox
from reconciler.kube.client import connected
from reconciler.kube.watch import ResourceWatch
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from shared import wire
from shared.aio import Ticks, running
from shared.model import AgentInfo, NodeReport
from shared.names import report_key
from shared.redis_url import RedisSettings
from tests.chaos.http_proxy import HttpProxy, Weather
from tests.chaos.tcp_proxy import TcpProxy
from tests.reconciler_io.conftest import node
from tests.redis_server import RedisServer
from tests.waiting import eventually

pytestmark = pytest.mark.slow

NOWHERE = "no-such-host.invalid"


class Hearing:
    """An inbox that knows node `a`, and the world its reports go to."""

    def __init__(self, url: str) -> None:
        metrics = Metrics()
        self.mirror = Mirror(World(), metrics)
        settings = RedisSettings(url=url)
        self.inbox = Inbox(settings, lambda: ["a"], self.mirror.accept, metrics, Ticks(), sweep_s=0.2)

    @property
    def seq(self) -> int:
        heard = self.mirror.world.heard.get("a")
        return heard.report.seq if heard else 0


async def say(server: RedisServer, seq: int) -> None:
    report = NodeReport(1, "a", "one", seq, "boot", time.time(), AgentInfo("0.1"))
    async with redis.asyncio.Redis.from_url(server.url) as client:
        await client.set(report_key("a"), wire.encode(report))


@pytest.fixture
async def way(redis_server: RedisServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(redis_server.port) as proxy:
        yield proxy


@pytest.mark.parametrize("toxic", ["cut", "hang", "broken", "slow"])
async def test_reports_are_read_again_after_whatever_the_connection_did(
    toxic: str, way: TcpProxy, redis_server: RedisServer
) -> None:
    hearing = Hearing(way.url)
    await say(redis_server, 1)
    async with running(hearing.inbox.run()):
        await eventually("the first sweep", lambda: hearing.inbox.ok and hearing.seq == 1)
        match toxic:
            case "cut":
                way.cut()
            case "hang":
                way.hang()
            case "broken":
                way.break_answers(150)
            case _:
                way.latency_s = 6.0
        await eventually("an outage", lambda: not hearing.inbox.ok, timeout_s=30)
        await say(redis_server, 2)
        assert hearing.seq == 1
        way.fair()
        await eventually("it reads again", lambda: hearing.inbox.ok and hearing.seq == 2, timeout_s=30)


@pytest.mark.parametrize("state", ["full", "a replica"])
async def test_a_redis_that_takes_no_writes_is_read_on(state: str, redis_server: RedisServer) -> None:
    hearing = Hearing(redis_server.url)
    async with running(hearing.inbox.run()):
        await eventually("the first sweep", lambda: hearing.inbox.ok)
        await say(redis_server, 3)
        async with redis.asyncio.Redis.from_url(redis_server.url) as client:
            if state == "full":
                await client.config_set("maxmemory", "1")
            else:
                await client.replicaof("127.0.0.1", "1")
            with pytest.raises(redis.exceptions.RedisError):
                await client.set("x", "y")
        await eventually("the report", lambda: hearing.seq == 3)
        assert hearing.inbox.ok


async def test_a_redis_whose_name_is_not_found_is_said_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    hearing = Hearing(f"redis://{NOWHERE}:6379/0")
    async with running(hearing.inbox.run()):
        async with asyncio.timeout(20):
            await hearing.inbox.tried.wait()
        assert not hearing.inbox.ok
        await eventually("a line", lambda: NOWHERE in caplog.text)


async def test_an_api_server_whose_name_is_not_found_is_no_answer_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(rig_files.kubeconfig(f"http://{NOWHERE}:6443"))
    async with connected(str(path)) as client:
        reply = await client.send(Call("GET", "/api/v1/nodes/a"), timeout_s=15)
    assert reply.status == 0
    assert NOWHERE in reply.text


WEATHERS = [Weather(halve_share=1.0), *(Weather(refuse=status, refuse_share=1.0) for status in (429, 500))]


@pytest.mark.parametrize("weather", WEATHERS, ids=["half a list", "429", "500"])
async def test_a_list_that_breaks_off_is_no_list_and_the_next_good_one_is(weather: Weather, tmp_path: Path) -> None:
    store = Store(time.time)
    for name in ("a", "b"):
        store.load(node(name))
    async with ApiServer(store) as server, HttpProxy("replica", server.url) as proxy:
        proxy.weather = weather
        path = tmp_path / "kubeconfig"
        path.write_text(rig_files.kubeconfig(proxy.url))
        async with connected(str(path)) as client:
            mirror = Mirror(World(), Metrics())
            watch = ResourceWatch(client, NODE, mirror, Metrics(), Ticks())
            async with running(watch.run()):
                await eventually("it has met the weather", lambda: proxy.spoiled > 1)
                assert not watch.synced
                assert not mirror.world.nodes
                proxy.weather = Weather()
                await eventually("the list", lambda: set(mirror.world.nodes) == {"a", "b"}, timeout_s=40)
