"""Reports from a real Redis: the key is the truth, garbage is counted and kept aside, an outage is no silence."""

import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from reconciler.core.state import World
from reconciler.inbox import Inbox
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from shared import wire
from shared.aio import Ticks, running
from shared.model import AgentInfo, ChangeNote, Fault, FaultLevel, NodeReport
from shared.names import EVENTS_STREAM, report_key
from shared.redis_url import RedisSettings
from tests.redis_server import RedisServer
from tests.waiting import eventually

FAULT = Fault("80E18402@3", "80E18402", 3, FaultLevel.SEPARATE_NPU, since=0.0, confirmed=True)


def report(node: str, seq: int, *faults: Fault, session: str = "one") -> NodeReport:
    return NodeReport(1, node, session, seq, "boot", time.time(), AgentInfo("0.1"), faults=faults)


class Reader:
    """An inbox, the world its reports go to, and a writer that plays the agents."""

    def __init__(self, server: RedisServer, writer: Any, nodes: list[str], sweep_s: float = 600.0) -> None:
        self.metrics = Metrics()
        self.mirror = Mirror(World(), self.metrics)
        self.nodes = nodes
        self.inbox = Inbox(
            RedisSettings(url=server.url),
            lambda: self.nodes,
            self.mirror.accept,
            self.metrics,
            Ticks(),
            sweep_s=sweep_s,
        )
        self._writer = writer

    async def put(self, node: str, value: bytes | NodeReport, *, key: str = "") -> None:
        raw = value if isinstance(value, bytes) else wire.encode(value)
        await self._writer.set(report_key(key or node), raw)

    async def tell(self, node: str, note: bytes | None = None) -> None:
        note = wire.encode(ChangeNote(1, node, "one", 1)) if note is None else note
        await self._writer.xadd(EVENTS_STREAM, {"note": note})

    def seq(self, node: str) -> int:
        heard = self.mirror.world.heard.get(node)
        return heard.report.seq if heard else 0

    def rejected(self, reason: str) -> float:
        return (
            self.metrics.registry.get_sample_value("npuwarden_reconciler_rejected_reports_total", {"reason": reason})
            or 0.0
        )


@pytest.fixture
async def writer(redis_server: RedisServer) -> AsyncIterator[Any]:
    client = redis.asyncio.Redis.from_url(redis_server.url, retry=Retry(ConstantBackoff(0.1), 10))
    yield client
    await client.aclose()


@pytest.fixture
def reader(redis_server: RedisServer, writer: Any) -> Reader:
    """Without sweeps after the first: what is seen later was seen by the stream."""
    return Reader(redis_server, writer, ["a", "b"])


async def test_what_stands_in_the_keys_is_heard_first_then_every_change(reader: Reader) -> None:
    await reader.put("a", report("a", 1))
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        assert (reader.seq("a"), reader.seq("b")) == (1, 0)
        await reader.put("a", report("a", 2, FAULT))
        await reader.put("b", report("b", 1))
        await reader.tell("a")
        await eventually("the change of a", lambda: reader.seq("a") == 2)
        assert reader.mirror.world.heard["a"].report.faults == (FAULT,)
        assert reader.seq("b") == 0  # nobody has said that b is new


async def test_a_lost_hint_heals_with_the_next_sweep(redis_server: RedisServer, writer: Any) -> None:
    reader = Reader(redis_server, writer, ["a"], sweep_s=0.1)
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        await reader.put("a", report("a", 1))
        await eventually("a sweep has found it", lambda: reader.seq("a") == 1)


async def test_old_entries_of_the_stream_are_not_replayed(reader: Reader) -> None:
    for _ in range(50):
        await reader.tell("a")
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        await reader.put("a", report("a", 1))
        await reader.put("b", report("b", 1))
        await reader.tell("b")
        await eventually("the new entry", lambda: reader.seq("b") == 1)
        assert reader.seq("a") == 0


def _with(message: NodeReport, **fields: Any) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(message), **fields})


BAD = {
    "not JSON": (b"\x00\xff garbage", "malformed"),
    "half a message": (wire.encode(report("a", 3))[:40], "malformed"),
    "a field of the wrong type": (_with(report("a", 3), seq="three"), "malformed"),
    "an older schema": (_with(report("a", 3), v=0), "schema"),
    "a newer schema": (_with(report("a", 3), v=2), "schema"),
    "another node's report": (wire.encode(report("b", 3)), "wrong-node"),
    "too big": (b'{"v": 1, "pad": "' + b"x" * (1 << 20) + b'"}', "too-big"),
    "an older seq": (wire.encode(report("a", 1)), "old-seq"),
}


@pytest.mark.parametrize(("raw", "reason"), BAD.values(), ids=BAD.keys())
async def test_a_message_that_cannot_be_used_is_counted_kept_and_harmless(
    reader: Reader, raw: bytes, reason: str
) -> None:
    await reader.put("a", report("a", 2, FAULT))
    async with running(reader.inbox.run()):
        await eventually("the good one", lambda: reader.seq("a") == 2)
        await reader.put("a", raw)
        await reader.tell("a")
        await eventually("it is counted", lambda: reader.rejected(reason) == 1)
        assert reader.mirror.world.heard["a"].report.faults == (FAULT,)  # the last good word stands
        (kept,) = reader.inbox.bad.values()
        assert (kept.source, kept.node, kept.reason) == (report_key("a"), "a", reason)
        await reader.put("a", report("a", 4))
        await reader.tell("a")
        await eventually("the next good one is heard", lambda: reader.seq("a") == 4)


async def test_fields_of_a_later_version_are_ignored(reader: Reader) -> None:
    await reader.put("a", _with(report("a", 1), weather="fine"))
    async with running(reader.inbox.run()):
        await eventually("it is heard", lambda: reader.seq("a") == 1)
        assert not reader.inbox.bad


async def test_a_session_that_was_replaced_never_returns(reader: Reader) -> None:
    await reader.put("a", report("a", 9, session="one"))
    async with running(reader.inbox.run()):
        await eventually("session one", lambda: reader.seq("a") == 9)
        await reader.put("a", report("a", 1, FAULT, session="two"))
        await reader.tell("a")
        await eventually("session two", lambda: reader.seq("a") == 1)
        await reader.put("a", report("a", 10, session="one"))
        await reader.tell("a")
        await eventually("the late writer is refused", lambda: reader.rejected("retired-session") == 1)
        assert reader.mirror.world.heard["a"].report.session == "two"


async def test_bad_and_forged_entries_of_the_stream_cost_nothing(reader: Reader) -> None:
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        await reader.put("a", report("a", 1))
        await reader.tell("a", b"garbage")
        await reader.tell("no-such-node")
        await reader.tell("a")
        await eventually("the good entry", lambda: reader.seq("a") == 1)
        assert reader.rejected("bad-note") == 1
        assert reader.rejected("unknown-node") == 1


async def test_what_is_kept_aside_is_bounded(redis_server: RedisServer, writer: Any) -> None:
    nodes = [f"n{i}" for i in range(300)]
    reader = Reader(redis_server, writer, nodes)
    for node in nodes:
        await reader.put(node, b"garbage")
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        assert reader.rejected("malformed") == 300
        assert len(reader.inbox.bad) == 100


async def test_an_outage_is_told_and_ends_with_a_full_sweep(reader: Reader, redis_server: RedisServer) -> None:
    await reader.put("a", report("a", 1))
    async with running(reader.inbox.run()):
        await eventually("it is up", lambda: reader.inbox.ok)
        redis_server.stop()
        await eventually("it is away", lambda: not reader.inbox.ok, timeout_s=6)
        assert reader.seq("a") == 1  # what is known stays known
        redis_server.start()
        await reader.put("a", report("a", 2))
        await reader.tell("a")
        await eventually("it is back", lambda: reader.inbox.ok)
        await eventually("what was said meanwhile", lambda: reader.seq("a") == 2)


async def test_without_redis_from_the_start_the_first_sweep_counts_as_tried(
    reader: Reader, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.stop()
    async with running(reader.inbox.run()):
        await eventually("tried", reader.inbox.tried.is_set)
        assert not reader.inbox.ok
        redis_server.start()
        await eventually("it is up", lambda: reader.inbox.ok)
    assert caplog.text.count("Silence of a node means nothing") == 1


async def test_a_wrong_password_is_one_line_without_the_password(
    redis_server: RedisServer, writer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    secret = uuid.uuid4().hex
    await writer.config_set("requirepass", "the right one")
    url = redis_server.url.replace("redis://", f"redis://warden:{secret}@")
    metrics = Metrics()
    inbox = Inbox(RedisSettings(url=url), list, Mirror(World(), metrics).accept, metrics, Ticks())
    async with running(inbox.run()):
        await eventually("it is said", lambda: "invalid username-password pair" in caplog.text)
        assert not inbox.ok
    assert secret not in caplog.text


async def test_a_rotated_password_is_read_at_the_next_connect(
    redis_server: RedisServer, writer: Any, tmp_path: Any
) -> None:
    password = tmp_path / "password"
    password.write_text("old\n")
    await writer.config_set("requirepass", "new")
    metrics = Metrics()
    config = RedisSettings(url=redis_server.url, password_file=str(password))
    inbox = Inbox(config, list, Mirror(World(), metrics).accept, metrics, Ticks())
    async with running(inbox.run()):
        await eventually("refused", inbox.tried.is_set)
        password.write_text("new\n")
        await eventually("let in", lambda: inbox.ok)
