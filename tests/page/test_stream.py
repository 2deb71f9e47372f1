"""The stream of the page, as a client of the HTTP API sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from reconciler.api import application
from reconciler.page import stream as module
from shared.http_server import serving
from tests.core.journal import recovery
from tests.page.replica import HOLDER, Replica, a_fault, replica_of
from tests.waiting import eventually

HEARD_S = 30.0


class Listener:
    """Reads the events of one stream."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self, *names: str) -> tuple[str, Any]:
        """The next event, of these names where any are given."""
        async with asyncio.timeout(HEARD_S):
            while True:
                name = (await self.answer.content.readuntil(b"\n")).decode().removeprefix("event: ").strip()
                data = (await self.answer.content.readuntil(b"\n")).decode().removeprefix("data: ")
                assert await self.answer.content.readline() == b"\n"
                if not names or name in names:
                    return name, json.loads(data)


@pytest.fixture
def replica() -> Replica:
    return replica_of(4)


@pytest.fixture
async def url(replica: Replica) -> AsyncIterator[str]:
    async with serving(application(replica), "127.0.0.1:0") as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def listening(url: str) -> AsyncIterator[Listener]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout, read_bufsize=2**22) as session,
        session.get(f"{url}/v1/stream") as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        yield Listener(answer)


def viewers(replica: Replica) -> float:
    return replica.metrics.registry.get_sample_value("npuwarden_reconciler_page_viewers") or 0.0


def dropped(replica: Replica, why: str) -> float:
    name = "npuwarden_reconciler_page_viewers_dropped_total"
    return replica.metrics.registry.get_sample_value(name, {"why": why}) or 0.0


async def test_first_the_whole_then_what_changes(replica: Replica, url: str) -> None:
    async with listening(url) as one:
        name, told = await one.next()
        assert name == "whole"
        assert told["holder"] == HOLDER
        assert told["delta"]["tables"]["nodes"]["set"]["npu-2"] == ["o", "........", "", ""]
        assert told["delta"]["now"]["warden"]["leader"] == HOLDER
        replica.say("npu-2", a_fault(3))
        replica.decide()
        name, told = await one.next("change")
        assert told["delta"]["tables"]["nodes"] == {"set": {"npu-2": ["f", "...7....", "", ""]}, "gone": []}
        assert "npu-2/80E18402@3" in told["delta"]["tables"]["faults"]["set"]
        replica.say("npu-2")
        replica.decide()
        name, told = await one.next("change")
        assert told["delta"]["tables"]["faults"] == {"set": {}, "gone": ["npu-2/80E18402@3"]}


async def test_nothing_new_is_said_too_with_the_time_of_what_was_looked_at(
    replica: Replica, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALIVE_S", 0.2)
    async with listening(url) as one:
        _, told = await one.next("whole")
        _, alive = await one.next("alive")
        assert alive["as_of"] >= told["as_of"]
        replica.decide()
        seen = alive["as_of"]
        while alive["as_of"] == seen:
            _, alive = await one.next("alive")
        assert alive["as_of"] > seen


async def test_a_standby_says_who_leads_and_begins_when_it_leads(replica: Replica, url: str) -> None:
    replica.leads, replica.leading = False, "the-other_1_2"
    async with listening(url) as one:
        assert await one.next() == ("standby", {"holder": HOLDER, "leader": "the-other_1_2", "recoveries": {}})
        replica.leads, replica.leading = True, HOLDER
        name, _ = await one.next("whole", "change")
        assert name == "whole"
        replica.leads, replica.leading = False, ""
        assert await one.next("standby") == ("standby", {"holder": HOLDER, "leader": "", "recoveries": {}})
        replica.observe(recovery(1, phase="Recreating"))
        _, told = await one.next("standby")
        assert told["recoveries"]["ml/j-001"]["phase"] == "Recreating"


async def test_viewers_are_counted_and_limited(replica: Replica, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VIEWERS", 2)
    monkeypatch.setattr(module, "ALIVE_S", 0.2)
    async with aiohttp.ClientSession() as session:
        async with listening(url) as one, listening(url) as two:
            assert (await one.next())[0] == (await two.next())[0] == "whole"
            assert viewers(replica) == 2
            async with session.get(f"{url}/v1/stream") as answer:
                assert answer.status == 503
                assert "2 pages are open" in (await answer.json())["detail"]
        await eventually("both have gone", lambda: viewers(replica) == 0)
        assert dropped(replica, "full") == 1
        async with session.head(f"{url}/v1/stream") as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")


async def test_one_that_takes_nothing_is_dropped_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.5)
    replica = replica_of(4)
    async with serving(application(replica), "127.0.0.1:0") as port:
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", port))
        stuck.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            async with listening(f"http://127.0.0.1:{port}") as other:
                assert (await other.next())[0] == "whole"
                # More than the kernel keeps for a connection.
                for number in range(60):
                    replica.world.paused = f"{number} " * 200_000
                    replica.decide()
                    assert (await other.next("change"))[0] == "change"
                    if dropped(replica, "slow"):
                        break
                assert dropped(replica, "slow") == 1
        finally:
            stuck.close()


async def test_it_ends_with_the_application(replica: Replica) -> None:
    async with serving(application(replica), "127.0.0.1:0") as port:
        stack = contextlib.AsyncExitStack()
        one = await stack.enter_async_context(listening(f"http://127.0.0.1:{port}"))
        assert (await one.next())[0] == "whole"
    async with stack, asyncio.timeout(HEARD_S):
        with contextlib.suppress(aiohttp.ClientError):
            await one.answer.content.read()
    assert viewers(replica) == 0
    assert replica.ticks.late() == []
    assert not [task for task in asyncio.all_tasks() if "periodic" in repr(task)]


async def test_nobody_watches_nothing_is_made(replica: Replica, url: str) -> None:
    def made() -> float:
        return replica.metrics.registry.get_sample_value("npuwarden_reconciler_page_frame_seconds_count") or 0.0

    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/nodes") as answer:
        assert answer.status == 200
    for _ in range(5):
        replica.decide()
        await asyncio.sleep(module.PERIOD_S / 2)
    assert made() == 0


async def test_the_first_frame_is_begun_when_the_page_is_asked_for(replica: Replica, url: str) -> None:
    def made() -> float:
        return replica.metrics.registry.get_sample_value("npuwarden_reconciler_page_frame_seconds_count") or 0.0

    async with aiohttp.ClientSession() as session, session.get(f"{url}/") as answer:
        assert answer.status == 200
    await eventually("a frame is made", lambda: made() == 1)


async def test_pages_that_were_closed_take_nobodys_place(url: str) -> None:
    for _ in range(2 * module.MAX_VIEWERS):
        async with listening(url) as one:
            assert (await one.next())[0] == "whole"
