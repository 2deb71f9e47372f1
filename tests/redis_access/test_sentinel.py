"""A failover costs both daemons a moment: the agent's newest report and its history, the reconciler's sight."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import RedisError

from agent.disk import Disk
from agent.metrics import Metrics as AgentMetrics
from agent.publisher import Publisher
from agent.store import Store
from reconciler.core.state import World
from reconciler.inbox import Inbox
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from shared import wire
from shared.aio import Ticks, running
from shared.model import AgentInfo, ChangeNote, NodeReport
from shared.names import EVENTS_STREAM
from shared.redis_client import connect
from shared.redis_url import RedisSettings
from tests.process import free_ports
from tests.redis_access.servers import SERVICE, Certificates, Watched
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.redis]
NODE = "node-a"


class Pair:
    """An agent's publisher and a reconciler's inbox on the same Sentinels."""

    def __init__(self, settings: RedisSettings, directory: Path) -> None:
        metrics = AgentMetrics()
        self.disk = Disk(Store(directory / "state"), metrics)
        client = connect(settings, timeout_s=2.0)
        self.publisher = Publisher(client, node=NODE, outbox=self.disk, metrics=metrics, timeout_s=2.0)
        self._mirror = Mirror(World(), Metrics())
        self.inbox = Inbox(settings, lambda: [NODE], self._mirror.accept, Metrics(), Ticks(), sweep_s=600)
        self._seq = 0

    async def tell(self) -> int:
        """One more change, as the agent tells it; its number."""
        self._seq += 1
        report = NodeReport(1, NODE, "one", self._seq, "boot", time.time(), AgentInfo("0.1"))
        self.publisher.offer(wire.encode(report))
        await self.disk.save(b"memory", [wire.encode(ChangeNote(1, NODE, "one", self._seq))])
        self.publisher.wake()
        return self._seq

    async def heard(self, seq: int) -> None:
        def newest() -> bool:
            known = self._mirror.world.heard.get(NODE)
            return known is not None and known.report.seq == seq

        await eventually(f"the reconciler hears report {seq}", newest, timeout_s=30)

    async def close(self) -> None:
        await self.publisher.close()
        await self.disk.close()


def url(*ports: int, scheme: str = "redis+sentinel") -> str:
    return f"{scheme}://{','.join(f'127.0.0.1:{port}' for port in ports)}/{SERVICE}"


@contextlib.asynccontextmanager
async def pair(settings: RedisSettings, directory: Path) -> AsyncIterator[Pair]:
    made = Pair(settings, directory)
    try:
        async with running(made.publisher.run(), made.inbox.run()):
            yield made
    finally:
        await made.close()


def history(watched: Watched) -> list[int]:
    """What the second server, the new master, has of the stream."""
    with watched.client(watched.second.port) as client:
        entries: Any = client.xrange(EVENTS_STREAM)
    return [wire.decode_note(fields[b"note"]).seq for _, fields in entries]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A Sentinel that takes connections and never answers."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


@pytest.fixture
def watched_by_tls(tmp_path: Path, certificates: Certificates) -> Iterator[Watched]:
    servers = Watched(tmp_path, certificates)
    servers.start()
    yield servers
    servers.stop()


async def test_the_master_dies_and_nothing_that_was_said_is_lost(
    watched: Watched, silent_port: int, tmp_path: Path
) -> None:
    (nobody,) = free_ports(1)
    settings = RedisSettings(url=url(nobody, silent_port, watched.port))
    async with pair(settings, tmp_path) as both:
        await both.heard(await both.tell())
        with watched.client(watched.first.port) as client:
            assert client.wait(1, 5000) == 1, "the replica has the first change"
        watched.first.stop()
        await eventually("the agent notices", lambda: both.publisher.problem is not None or not both.inbox.ok)
        for _ in range(3):
            last = await both.tell()
        await both.heard(last)
        await eventually("the outbox is empty", lambda: both.publisher.problem is None)
        assert history(watched) == [1, 2, 3, 4]


async def test_a_master_that_is_demoted_alive_is_left(watched: Watched, tmp_path: Path) -> None:
    async with pair(RedisSettings(url=url(watched.port)), tmp_path) as both:
        await both.heard(await both.tell())
        await asyncio.to_thread(watched.fail_over)
        await eventually("the roles have changed", lambda: watched.role(watched.first) == "slave", timeout_s=30)
        await both.heard(await both.tell())
        assert watched.role(watched.second) == "master"
        assert history(watched)[-1] == 2


async def test_sentinels_and_servers_over_tls(
    watched_by_tls: Watched, certificates: Certificates, tmp_path: Path
) -> None:
    settings = RedisSettings(url=url(watched_by_tls.port, scheme="rediss+sentinel"), **certificates.settings())
    async with pair(settings, tmp_path) as both:
        await both.heard(await both.tell())


async def test_a_sentinel_with_a_password(watched: Watched, tmp_path: Path) -> None:
    secret = tmp_path / "sentinel-password"
    secret.write_text("wrong\n")
    with watched.client(watched.port) as sentinel:
        sentinel.execute_command("ACL", "SETUSER", "default", "on", ">right")
    client = connect(RedisSettings(url=url(watched.port), sentinel_password_file=str(secret)), timeout_s=2.0)
    try:
        with pytest.raises(RedisError, match="invalid username-password pair"):
            await client.ping()
        secret.write_text("right\n")
        assert await client.ping()
    finally:
        await client.aclose()


async def test_no_sentinel_that_knows_the_master_is_said_with_each_of_them(watched: Watched, silent_port: int) -> None:
    wrong = f"redis+sentinel://127.0.0.1:{silent_port},127.0.0.1:{watched.port}/another"
    client = connect(RedisSettings(url=wrong), timeout_s=1.5)
    try:
        with pytest.raises(redis.ConnectionError) as told:
            await client.ping()
    finally:
        await client.aclose()
    assert f"127.0.0.1:{silent_port}: no answer within 0.5 s" in str(told.value)
    assert f"127.0.0.1:{watched.port} does not know it" in str(told.value)
