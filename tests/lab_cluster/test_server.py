"""The API server's own part: watches, discovery, slowness and outages. What it answers is in test_conformance.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from console.lab.cluster.client import Access, Client, WatchEvent
from console.lab.cluster.resources import NODES, PODS
from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from tests.waiting import eventually


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(Store(lambda: 1_767_229_200.0)) as server:
        yield server


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(Access(server.url)) as client:
        yield client


async def collect(api: Client, version: str, into: asyncio.Queue[WatchEvent]) -> None:
    """Follow the nodes until the stream ends."""
    async for event in api.watch(NODES, version):
        into.put_nowait(event)


async def test_a_watch_without_a_version_begins_with_what_is_there(server: ApiServer, api: Client) -> None:
    await api.create(NODES, {"metadata": {"name": "node-a"}})
    event = await asyncio.wait_for(anext(api.watch(NODES, "")), 5)
    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "node-a")


async def test_an_idle_watch_gets_bookmarks_with_the_newest_version(server: ApiServer, api: Client) -> None:
    server.bookmark_s = 0.05
    version = str(server.store.version)
    await api.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}})
    event = await asyncio.wait_for(anext(api.watch(NODES, version)), 5)
    assert (event.type, event.object["kind"]) == ("BOOKMARK", "Node")
    assert event.object["metadata"]["resourceVersion"] == str(server.store.version)


async def test_a_watch_ends_after_its_time(server: ApiServer) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"{server.url}/api/v1/nodes?watch=true&timeoutSeconds=1&resourceVersion={server.store.version}"
        async with session.get(url) as response:
            assert await asyncio.wait_for(response.read(), 10) == b""


async def test_a_cut_watch_resumes_where_it_was(server: ApiServer, api: Client) -> None:
    version, seen = str(server.store.version), asyncio.Queue[WatchEvent]()
    task = asyncio.create_task(collect(api, version, seen))
    await api.create(NODES, {"metadata": {"name": "node-a"}})
    first = await asyncio.wait_for(seen.get(), 5)
    server.cut_watches()
    with pytest.raises(aiohttp.ClientError):
        await task
    await api.create(NODES, {"metadata": {"name": "node-b"}})
    resumed = await asyncio.wait_for(anext(api.watch(NODES, first.object["metadata"]["resourceVersion"])), 5)
    assert resumed.object["metadata"]["name"] == "node-b"


async def test_an_outage_cuts_watches_and_answers_nothing(server: ApiServer, api: Client) -> None:
    task = asyncio.create_task(collect(api, str(server.store.version), asyncio.Queue()))
    await eventually("the watch is open", lambda: server.watching == 1)
    server.down = True
    with pytest.raises(aiohttp.ClientError):
        await task
    with pytest.raises(aiohttp.ClientError):
        await api.list_all(NODES)
    server.down = False
    assert await api.list_all(NODES) == ([], str(server.store.version))


async def test_a_watch_that_nobody_reads_is_ended(server: ApiServer, api: Client) -> None:
    task = asyncio.create_task(collect(api, str(server.store.version), asyncio.Queue()))
    await eventually("the watch is open", lambda: server.watching == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually("the server has noticed", lambda: server.watching == 0)


async def test_latency(server: ApiServer, api: Client) -> None:
    server.latency_s = 0.2
    started = asyncio.get_running_loop().time()
    await api.list_all(NODES)
    assert asyncio.get_running_loop().time() - started >= 0.2


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/readyz", 200, "ok"),
        ("/version", 200, '"minor":"37"'),
        ("/api", 200, '"versions":["v1"]'),
        ("/api/v1", 200, '"name":"nodes/status"'),
        ("/apis", 200, '"name":"npuwarden.io"'),
        ("/apis/mindxdl.gitee.com", 200, '"groupVersion":"mindxdl.gitee.com/v1"'),
        ("/apis/mindxdl.gitee.com/v1", 200, '"kind":"AscendJob"'),
        ("/apis/example.com/v1", 404, "404 page not found"),
        ("/apis/apps/v1/things", 404, '"kind":"Status"'),
        ("/api/v1/nodes?watch=true&resourceVersion=abc", 400, "resourceVersion"),
    ],
)
async def test_what_it_says_about_itself(server: ApiServer, path: str, status: int, text: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as response:
        assert response.status == status
        assert text in await response.text()


async def test_a_body_that_is_no_json_and_a_refusal_with_its_pause(server: ApiServer) -> None:
    server.store.refuse("list", "Node", 429)
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{server.url}/api/v1/nodes", data=b"{no") as response:
            assert response.status == 400
        async with session.get(f"{server.url}/api/v1/nodes") as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
