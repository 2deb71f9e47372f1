"""Reports and history in a real Redis, through outages."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as aioredis

from agent.config import Redis as RedisSettings
from agent.disk import Disk
from agent.metrics import Metrics
from agent.publisher import EXPIRY_S, Publisher
from agent.store import Store
from shared.aio import running
from shared.names import EVENTS_STREAM, report_key
from shared.redis_client import connect
from tests.process import free_ports
from tests.redis_server import RedisServer
from tests.waiting import eventually

KEY = report_key("node-a")


class Bench:
    """A publisher with a real outbox, and a second connection that looks."""

    def __init__(self, settings: RedisSettings, directory: Path) -> None:
        self.metrics = Metrics()
        self.disk = Disk(Store(directory), self.metrics)
        self.client = connect(settings, timeout_s=settings.timeout_s)
        wait_s = settings.timeout_s
        self.publisher = Publisher(self.client, node="node-a", outbox=self.disk, metrics=self.metrics, timeout_s=wait_s)
        self.url = settings.url
        self.look = aioredis.Redis.from_url(settings.url)

    async def change(self, number: int) -> None:
        self.publisher.offer(b"report %d" % number)
        await self.disk.save(b"memory", [b"note %d" % number])
        self.publisher.wake()

    async def notes(self) -> list[bytes]:
        entries: Any = await self.look.xrange(EVENTS_STREAM)
        return [fields[b"note"] for _, fields in entries]

    async def close(self) -> None:
        await self.publisher.close()
        await self.disk.close()
        await self.look.aclose()


@pytest.fixture
async def bench(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(RedisSettings(url=redis_server.url, timeout_s=1), tmp_path / "state")
    yield made
    await made.close()


async def test_the_report_is_the_nodes_key_and_expires(bench: Bench) -> None:
    await bench.change(1)
    assert await bench.publisher.send()
    assert await bench.look.get(KEY) == b"report 1"
    assert 0 < await bench.look.ttl(KEY) <= EXPIRY_S
    assert await bench.notes() == [b"note 1"]
    assert await bench.disk.pending(10) == []


async def test_a_heartbeat_adds_no_history(bench: Bench) -> None:
    bench.publisher.offer(b"report 1")
    assert await bench.publisher.send()
    assert await bench.look.get(KEY) == b"report 1"
    assert await bench.notes() == []


async def test_an_outage_loses_no_note_and_the_newest_report_comes_first(
    bench: Bench, redis_server: RedisServer
) -> None:
    async with running(bench.publisher.run()):
        await bench.change(1)
        await eventually("the first report", lambda: bench.publisher.problem is None)
        redis_server.stop()
        for number in range(2, 300):
            await bench.change(number)
        await eventually("the outage is noticed", lambda: bench.publisher.problem is not None)
        redis_server.start()
        watch = aioredis.Redis.from_url(redis_server.url)
        await eventually("the outage is over", lambda: bench.publisher.problem is None)
        assert await watch.get(KEY) == b"report 299"
        assert await bench.notes() == [b"note %d" % number for number in range(2, 300)]
        assert await bench.disk.pending(1) == []
        await watch.aclose()


async def test_order_of_commands_after_an_outage(bench: Bench, redis_server: RedisServer) -> None:
    for number in range(3):
        await bench.change(number)
    async with bench.look.monitor() as monitor:
        assert await bench.publisher.send()
        seen: list[str] = []
        async for command in monitor.listen():
            words = str(command["command"]).split()
            if words[0] in {"SET", "XADD"}:
                seen.append(" ".join([words[0], words[1], *words[-1:]]) if words[0] == "XADD" else words[0])
            if len(seen) == 4:
                break
    assert seen[0] == "SET"
    assert all(line.startswith(f"XADD {EVENTS_STREAM}") for line in seen[1:])
    assert await bench.notes() == [b"note 0", b"note 1", b"note 2"]


async def test_a_note_whose_answer_was_lost_is_sent_again_rather_than_never(bench: Bench) -> None:
    await bench.change(1)
    await bench.look.set(EVENTS_STREAM, "not a stream")
    assert not await bench.publisher.send()
    assert await bench.look.get(KEY) == b"report 1", "the truth does not wait for the history"
    assert bench.publisher.problem is not None
    assert "WRONGTYPE" in bench.publisher.problem
    await bench.look.delete(EVENTS_STREAM)
    assert await bench.publisher.send()
    assert await bench.notes() == [b"note 1"]


async def test_a_password_is_read_from_its_file_and_a_wrong_one_is_said_once_and_retried(
    bench: Bench, tmp_path: Path, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.look.acl_setuser(
        "agent", enabled=True, passwords=["+secret"], keys=["*"], commands=["+set", "+xadd", "+client", "+ping"]
    )
    password = tmp_path / "password"
    password.write_text("wrong\n")
    settings = RedisSettings(url=redis_server.url, username="agent", password_file=str(password), timeout_s=1)
    other = Bench(settings, tmp_path / "other")
    try:
        await other.change(1)
        assert not await other.publisher.send()
        assert not await other.publisher.send()
        assert len([record for record in caplog.records if "Redis does not take reports" in record.message]) == 1
        assert "secret" not in caplog.text
        assert "wrong" not in caplog.text.replace("WRONGPASS", "")
        password.write_text("secret\n")
        assert await other.publisher.send()
        assert await other.notes() == [b"note 1"]
    finally:
        await other.close()


async def test_a_redis_that_accepts_and_never_answers_is_a_time_out(tmp_path: Path) -> None:
    server = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, nobody reads
    port = server.getsockname()[1]
    dumb = Bench(RedisSettings(url=f"redis://127.0.0.1:{port}/0", timeout_s=0.3), tmp_path)
    try:
        await dumb.change(1)
        async with asyncio.timeout(5):
            assert not await dumb.publisher.send()
        assert "no answer within 0.3 s" in (dumb.publisher.problem or ""), "an error without words helps nobody"
    finally:
        await dumb.close()
        server.close()


async def test_nobody_listening_is_told_and_not_raised(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    alone = Bench(RedisSettings(url=f"redis://127.0.0.1:{port}/0", timeout_s=0.3), tmp_path)
    try:
        await alone.change(1)
        assert not await alone.publisher.send()
        assert alone.publisher.problem is not None
        assert "ConnectionError" in alone.publisher.problem
    finally:
        await alone.close()


async def test_no_note_is_seen_before_its_report(bench: Bench) -> None:
    """Whoever hears of a change reads the node's key: it must not find the report before it."""
    stream = aioredis.Redis.from_url(bench.url)
    position = "0"
    async with running(bench.publisher.run()):
        for number in range(100):
            await bench.change(number)
            entries: Any = await stream.xread({EVENTS_STREAM: position}, block=2000)
            report: Any = await stream.get(KEY)
            position, fields = entries[0][1][-1]
            heard, told = int(fields[b"note"].split()[1]), int(report.split()[1])
            assert told >= heard
    await stream.aclose()
