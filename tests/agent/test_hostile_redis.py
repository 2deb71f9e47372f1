"""A Redis that refuses, fails over or is misconfigured: the publisher says so, goes on, and loses nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as aioredis

from agent.config import Redis as RedisSettings
from agent.disk import Disk
from agent.metrics import Metrics
from agent.publisher import Publisher
from agent.store import Store
from shared.aio import running
from shared.names import EVENTS_STREAM, report_key
from shared.redis_client import connect
from tests.process import free_ports
from tests.redis_server import RedisServer
from tests.waiting import eventually

KEY = report_key("node-a")


class Proxy:
    """A TCP address whose target can change: open connections stay where they are. `pass_bytes`: cut after so many."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay_s = 0.0
        self.pass_bytes: int | None = None
        (self.port,) = free_ports(1)
        self._writers: list[asyncio.StreamWriter] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [writer, there]
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(self._pump(reader, there, cut=True), self._pump(there_reader, writer, cut=False))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, cut: bool) -> None:
        while data := await source.read(4096):
            if cut and self.pass_bytes is not None:
                data = data[: self.pass_bytes]
                self.pass_bytes -= len(data)
                sink.write(data)
                if self.pass_bytes == 0:
                    self.pass_bytes = None
                    for writer in self._writers:
                        writer.close()
                    return
                continue
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            sink.write(data)
        sink.close()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            await server.wait_closed()


class Bench:
    """A publisher with a real outbox; `look` sees the Redis itself."""

    def __init__(self, settings: RedisSettings, look: str, directory: Path) -> None:
        self.store = Store(directory)
        self.disk = Disk(self.store, Metrics())
        self.publisher = Publisher(
            connect(settings, timeout_s=settings.timeout_s),
            node="node-a",
            outbox=self.disk,
            metrics=Metrics(),
            timeout_s=settings.timeout_s,
        )
        self.look = aioredis.Redis.from_url(look)

    async def change(self, number: int) -> None:
        self.publisher.offer(b"report %d" % number)
        await self.disk.save(b"memory", [b"note %d" % number])
        self.publisher.wake()

    async def notes(self) -> list[bytes]:
        entries: Any = await self.look.xrange(EVENTS_STREAM)
        return [fields[b"note"] for _, fields in entries]

    async def until_sent(self, what: str) -> None:
        await eventually(what, lambda: self.publisher.problem is None and self.store.count() == 0)

    async def close(self) -> None:
        await self.publisher.close()
        await self.disk.close()
        await self.look.aclose()


@contextlib.asynccontextmanager
async def bench(settings: RedisSettings, look: str, directory: Path) -> AsyncIterator[Bench]:
    made = Bench(settings, look, directory)
    try:
        yield made
    finally:
        await made.close()


async def test_a_password_file_that_is_no_text_is_a_problem_of_redis_and_not_the_agents_end(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_bytes(b"\xff\xfe\x00")
    settings = RedisSettings(url=redis_server.url, password_file=str(secret))
    async with bench(settings, redis_server.url, tmp_path / "state") as made:
        await made.change(1)
        assert not await made.publisher.send()
        assert "password_file" in (made.publisher.problem or "")


async def test_after_a_failover_the_new_master_gets_the_reports(redis_server: RedisServer, tmp_path: Path) -> None:
    """The old master lives on as a replica, and its connections with it."""
    directory = tmp_path / "other"
    directory.mkdir()
    other = RedisServer(directory)
    other.start()
    try:
        async with Proxy(redis_server.port).open() as proxy:
            settings = RedisSettings(url=f"redis://127.0.0.1:{proxy.port}/0", timeout_s=1)
            async with bench(settings, other.url, tmp_path / "state") as made, running(made.publisher.run()):
                await made.change(1)
                await made.until_sent("the first change")
                old = aioredis.Redis.from_url(redis_server.url)
                await old.replicaof("127.0.0.1", str(other.port))
                await old.aclose()
                proxy.target = other.port
                await made.change(2)
                await made.until_sent("the second change")
                assert await made.look.get(KEY) == b"report 2"
                assert (await made.notes())[-1] == b"note 2"
    finally:
        other.stop()


async def test_a_redis_that_is_full_keeps_the_outbox_until_it_has_room(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    settings = RedisSettings(url=redis_server.url, timeout_s=1)
    async with bench(settings, redis_server.url, tmp_path / "state") as made, running(made.publisher.run()):
        await made.look.config_set("maxmemory", "1mb")
        await made.look.config_set("maxmemory", "1")
        for number in range(5):
            await made.change(number)
        await eventually("the refusal", lambda: "OutOfMemory" in (made.publisher.problem or "") or None)
        await made.look.config_set("maxmemory", "0")
        await made.until_sent("everything")
        assert await made.notes() == [b"note %d" % number for number in range(5)]
        assert await made.look.get(KEY) == b"report 4"


@pytest.mark.parametrize("cut_after", [1, 40, 130, 300, 700, 1500])
async def test_a_connection_cut_in_the_middle_loses_nothing(
    redis_server: RedisServer, tmp_path: Path, cut_after: int
) -> None:
    async with Proxy(redis_server.port).open() as proxy:
        settings = RedisSettings(url=f"redis://127.0.0.1:{proxy.port}/0", timeout_s=1)
        async with bench(settings, redis_server.url, tmp_path / "state") as made:
            for number in range(20):
                await made.change(number)
            proxy.pass_bytes = cut_after
            async with running(made.publisher.run()):
                await made.until_sent("everything")
            found = await made.notes()
        assert list(dict.fromkeys(found)) == [b"note %d" % number for number in range(20)], "some twice, none lost"


async def test_a_slow_redis_is_only_slow(redis_server: RedisServer, tmp_path: Path) -> None:
    async with Proxy(redis_server.port).open() as proxy:
        proxy.delay_s = 0.1
        settings = RedisSettings(url=f"redis://127.0.0.1:{proxy.port}/0", timeout_s=1)
        async with bench(settings, redis_server.url, tmp_path / "state") as made, running(made.publisher.run()):
            for number in range(10):
                await made.change(number)
            await made.until_sent("everything")
            assert await made.notes() == [b"note %d" % number for number in range(10)]


async def test_a_stream_key_of_another_type_does_not_hold_up_the_report(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    settings = RedisSettings(url=redis_server.url, timeout_s=1)
    async with bench(settings, redis_server.url, tmp_path / "state") as made:
        await made.look.set(EVENTS_STREAM, "not a stream")
        await made.change(1)
        assert not await made.publisher.send()
        assert await made.look.get(KEY) == b"report 1"
        assert "WRONGTYPE" in (made.publisher.problem or "")
        assert [note for _, note in await made.disk.pending(5)] == [b"note 1"]
