"""Commands on their way from Redis to what they do: once, in time, for this node, and nothing bad is fatal."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis.asyncio as aioredis

from agent.command_stream import CommandStream
from agent.commands import Action, Commands, Refused
from agent.disk import Disk
from agent.metrics import Metrics
from agent.store import Store
from shared.aio import Ticks, running
from shared.commands import COMMAND_FIELD, Body, Command, DrillStop, Peer, Peers, Reread, encode_command
from shared.names import commands_stream
from shared.redis_client import connect
from shared.redis_url import RedisSettings
from tests.redis_server import RedisServer
from tests.waiting import eventually

NODE = "node-a"


class Reader:
    """One agent process, as far as commands go. `did`: what was carried out."""

    def __init__(self, server: RedisServer, directory: Path) -> None:
        self.did: list[Body] = []
        self.metrics, self.ticks = Metrics(), Ticks()
        self._client = connect(RedisSettings(url=server.url), timeout_s=1)
        self.disk = Disk(Store(directory), self.metrics)
        actions: dict[type[Body], Action] = {Reread: self._do, Peers: self._do, DrillStop: self._refuse}
        stream = CommandStream(self._client, node=NODE, timeout_s=1)
        self.commands = Commands(
            stream, self.disk, actions, node=NODE, metrics=self.metrics, ticks=self.ticks, poll_s=0.05
        )

    async def close(self) -> None:
        await self._client.aclose()
        await self.disk.close()

    def count(self, kind: str, result: str) -> float:
        labels = {"kind": kind, "result": result}
        return self.metrics.registry.get_sample_value("npuwarden_agent_commands_total", labels) or 0.0

    async def _do(self, body: Body, left_s: float) -> str:
        assert left_s > 0
        self.did.append(body)
        return "done"

    async def _refuse(self, body: Body, _left_s: float) -> str:
        raise Refused("not supported by this agent version")


@pytest.fixture
async def writer(redis_server: RedisServer) -> AsyncIterator[Any]:
    client = aioredis.Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


@pytest.fixture
async def reader(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Reader]:
    reader = Reader(redis_server, tmp_path / "state")
    yield reader
    await reader.close()


def reread(number: str, *, ttl_s: float = 60, node: str = NODE, why: str | None = None) -> bytes:
    return encode_command(Command(number, node, time.time() + ttl_s, Reread(number if why is None else why)))


async def tell(writer: Any, *messages: bytes) -> None:
    for message in messages:
        await writer.xadd(commands_stream(NODE), {COMMAND_FIELD: message})


async def test_a_command_that_waits_is_carried_out_at_the_start_and_new_ones_as_they_come(
    reader: Reader, writer: Any
) -> None:
    await tell(writer, reread("one"))
    async with running(reader.commands.run()):
        await eventually("the one that waited", lambda: reader.did == [Reread("one")])
        await tell(writer, reread("two"), reread("three"))
        await eventually("the others, in order", lambda: [b.why for b in reader.did[1:]] == ["two", "three"])  # type: ignore[union-attr]
    assert reader.count("reread", "done") == 3


async def test_an_id_is_carried_out_once_also_by_the_next_process(
    redis_server: RedisServer, reader: Reader, writer: Any, tmp_path: Path
) -> None:
    await tell(writer, reread("one"), reread("one", why="again"))
    async with running(reader.commands.run()):
        await eventually("the second is seen", lambda: reader.count("reread", "repeated") == 1)
    assert reader.did == [Reread("one")]
    await reader.disk.close()
    second = Reader(redis_server, tmp_path / "state")
    async with running(second.commands.run()):
        await eventually("both are seen", lambda: second.count("reread", "repeated") == 2)
    assert second.did == []
    await second.close()


async def test_a_peer_list_is_taken_by_every_process_and_the_newest_counts(
    redis_server: RedisServer, reader: Reader, writer: Any, tmp_path: Path
) -> None:
    lists = [Peers((Peer(name, {0: "192.0.2.1"}),)) for name in "bc"]
    for number, body in enumerate(lists):
        await tell(writer, encode_command(Command(f"peers/{number}", NODE, time.time() + 60, body)))
    async with running(reader.commands.run()):
        await eventually("both lists", lambda: reader.did == lists)
    await reader.disk.close()
    second = Reader(redis_server, tmp_path / "state")
    async with running(second.commands.run()):
        await eventually("both lists again", lambda: second.did == lists)
    await second.close()


BAD = {
    "expired": (reread("late", ttl_s=-5), "reread", "expired"),
    "for another node": (reread("foreign", node="node-b"), "none", "foreign-node"),
    "of a kind nobody knows": (
        msgspec.json.encode({"v": 1, "id": "x", "kind": "dance", "node": NODE, "expires_at": 1e10}),
        "none",
        "unknown-kind",
    ),
    "of another schema": (msgspec.json.encode({"v": 9}), "none", "schema"),
    "garbage": (b"\xff\x00", "none", "malformed"),
    "refused": (encode_command(Command("d", NODE, 1e10, DrillStop("d"))), "drill-stop", "refused"),
}


@pytest.mark.parametrize(("raw", "kind", "result"), BAD.values(), ids=BAD.keys())
async def test_what_is_not_carried_out_is_counted_said_once_and_harmless(
    reader: Reader, writer: Any, raw: bytes, kind: str, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    await tell(writer, raw, raw, reread("good"))
    async with running(reader.commands.run()):
        await eventually("the good one", lambda: reader.did == [Reread("good")])
    assert reader.count(kind, result) >= 1
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


async def test_a_bug_in_an_action_ends_nothing(reader: Reader, writer: Any, caplog: pytest.LogCaptureFixture) -> None:
    broken = Command("none", NODE, time.time() + 60, DrillStop("x"))
    del reader.commands._actions[DrillStop]  # type: ignore[attr-defined]
    await tell(writer, encode_command(broken), reread("good"))
    async with running(reader.commands.run()):
        await eventually("the good one", lambda: reader.did == [Reread("good")])
    assert reader.count("drill-stop", "failed") == 1
    assert "a bug stopped it" in caplog.text


async def test_redis_away_is_said_once_and_what_was_written_meanwhile_is_found(
    redis_server: RedisServer, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.stop()
    async with running(reader.commands.run()):
        await eventually("it is said", lambda: "commands cannot be read" in caplog.text)
        redis_server.start()
        client = aioredis.Redis.from_url(redis_server.url)
        await tell(client, reread("one"))
        await client.aclose()
        await eventually("it is done", lambda: reader.did == [Reread("one")])
    assert caplog.text.count("commands cannot be read") == 1
    assert reader.ticks.late() == []


async def test_a_stream_of_nonsense_is_read_to_its_end(reader: Reader, writer: Any) -> None:
    pipe = writer.pipeline(transaction=False)
    for number in range(3000):
        pipe.xadd(commands_stream(NODE), {COMMAND_FIELD if number % 2 else "other": b"{}"})
    await pipe.execute()
    await tell(writer, reread("good"))
    async with running(reader.commands.run()):
        await eventually("the good one", lambda: reader.did == [Reread("good")])
    assert reader.count("none", "malformed") == 3000


def test_the_memory_of_commands_is_bounded_by_their_ends(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.begin("a", until=100, now=50)
    assert not store.begin("a", until=100, now=99)
    assert store.begin("b", until=300, now=200)
    store.close()
    again = Store(tmp_path)
    assert not again.begin("b", until=300, now=201)
    assert again._db.execute("SELECT id FROM commands").fetchall() == [("b",)]
    again.close()
