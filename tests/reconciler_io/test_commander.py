"""Commands on their way from the state into the agents' streams: each once, bounded, and Redis may be away."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from reconciler.commander import AT_ONCE, STREAM_MAXLEN, Commander
from reconciler.core import fold
from reconciler.core.state import State, World
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks, running
from shared.commands import COMMAND_FIELD, Command, Peers, ReleaseSeparation, decode_command
from shared.model import AgentInfo, Chip, Fault, FaultLevel, NodeReport
from shared.names import ISOLATION_ANNOTATION, commands_stream
from shared.redis_url import RedisSettings
from tests.core.build import node
from tests.redis_server import RedisServer
from tests.waiting import eventually

MANUAL = Fault("80E18008@3", "80E18008", 3, FaultLevel.MANUALLY_SEPARATE_NPU, since=0.0, confirmed=True)


class Sender:
    """A commander over a world that the test changes, and what it has written."""

    def __init__(self, server: RedisServer, client: Any) -> None:
        self.world = World()
        self.metrics, self.ticks = Metrics(), Ticks()
        self.leads = True
        self.asked = 0
        self._client = client
        self._settings = RedisSettings(url=server.url)

    def commander(self) -> Commander:
        return Commander(self._settings, self._newest, self.metrics, self.ticks)

    def _newest(self) -> State | None:
        self.asked += 1
        return self.world.snapshot() if self.leads else None

    def add(self, name: str, *faults: Fault, annotations: dict[str, str] | None = None, seq: int = 1) -> None:
        obj = node(name)
        obj["metadata"]["annotations"] = annotations or {}
        fold.observe(self.world, "Node", "set", obj)
        chips = (Chip(0, "ok", ip="192.0.2.1"),)
        said = NodeReport(1, name, "s", seq, "b", time.time(), AgentInfo("0"), chips=chips, faults=faults)
        assert fold.heard(self.world, said, aio.now()) is None

    def sent(self, kind: str, result: str = "sent") -> float:
        labels = {"kind": kind, "result": result}
        return self.metrics.registry.get_sample_value("npuwarden_reconciler_commands_total", labels) or 0.0

    async def stream(self, name: str) -> list[Command]:
        entries = await self._client.xrange(commands_stream(name))
        return [decode_command(fields[COMMAND_FIELD.encode()], node=name) for _, fields in entries]


@pytest.fixture
async def client(redis_server: RedisServer) -> AsyncIterator[Any]:
    client = redis.asyncio.Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


@pytest.fixture
def sender(redis_server: RedisServer, client: Any) -> Sender:
    return Sender(redis_server, client)


async def test_every_node_gets_its_peers_once(sender: Sender, client: Any) -> None:
    for name in "abc":
        sender.add(name)
    async with running(sender.commander().run()):
        await eventually("all three", lambda: sender.sent("peers") == 3)
        sender.add("d")
        sender.add("d", MANUAL, annotations={ISOLATION_ANNOTATION: RELEASED}, seq=2)
        await eventually("a round later", lambda: sender.sent("release-separation") == 1)
    for name in "abc":
        (command,) = await sender.stream(name)
        assert isinstance(command.body, Peers)
        assert {peer.node for peer in command.body.peers} == set("abc") - {name}
        assert 0 < await client.ttl(commands_stream(name)) <= 86400


RELEASED = '{"session": "s7", "since": "2026-01-01T00:00:00Z", "by": "operator", "released": ["80E18008@3"]}'


async def test_the_next_leader_says_nothing_an_agent_could_take_for_new(sender: Sender) -> None:
    sender.add("a", MANUAL, annotations={ISOLATION_ANNOTATION: RELEASED})
    for term in (1, 2):
        async with running(sender.commander().run()):
            await eventually("it is sent", lambda term=term: sender.sent("release-separation") == term)  # type: ignore[misc]
    first, second = await sender.stream("a")
    assert first.id == second.id
    assert first.body == ReleaseSeparation(3, "80E18008", "node a was released by a person")


async def test_who_does_not_lead_sends_nothing(sender: Sender) -> None:
    sender.leads = False
    sender.add("a", MANUAL, annotations={ISOLATION_ANNOTATION: RELEASED})
    async with running(sender.commander().run()):
        await eventually("it has looked twice", lambda: sender.asked >= 2)
        assert await sender.stream("a") == []
        sender.leads = True
        await eventually("now it is sent", lambda: sender.sent("release-separation") == 1)


async def test_a_big_fleet_is_told_in_rounds_and_a_stream_is_bounded(sender: Sender, client: Any) -> None:
    stream = commands_stream("n000")
    pipe = client.pipeline(transaction=False)
    for number in range(1000):
        pipe.xadd(stream, {"old": number})
    await pipe.execute()
    for number in range(AT_ONCE + 50):
        sender.add(f"n{number:03d}")
    async with running(sender.commander().run()):
        await eventually("the first round", lambda: sender.sent("peers") >= AT_ONCE)
        await eventually("the rest", lambda: sender.sent("peers") == AT_ONCE + 50)
    assert await client.xlen(stream) < STREAM_MAXLEN + 100, "approximate trimming keeps whole nodes of 100"


async def test_redis_away_is_said_once_and_nothing_is_lost(
    sender: Sender, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.stop()
    sender.add("a", MANUAL, annotations={ISOLATION_ANNOTATION: RELEASED})
    async with running(sender.commander().run()):
        await eventually("two rounds in vain", lambda: sender.sent("any", "failed") >= 2)
        redis_server.start()
        await eventually("it is sent", lambda: sender.sent("release-separation") == 1)
    assert caplog.text.count("takes no commands") == 1
    assert len(await sender.stream("a")) == 1
