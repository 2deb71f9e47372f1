"""What each user may do is what its part does."""

import asyncio
import subprocess
import time

import pytest
import redis

from agent.command_stream import CommandStream
from agent.config import AgentConfig, redis_settings
from agent.config import Redis as AgentRedis
from agent.metrics import Metrics as AgentMetrics
from agent.publisher import Publisher
from console.lab.children import NPU_WARDEN
from console.redis_users import user_of
from reconciler.inbox import Inbox
from reconciler.metrics import Metrics
from shared.aio import Ticks, cancel
from shared.commands import COMMAND_FIELD
from shared.model import SCHEMA_VERSION, AgentInfo, ChangeNote, NodeReport
from shared.names import EVENTS_STREAM, commands_stream, report_key
from shared.redis_client import connect
from shared.wire import encode
from tests.redis_users.conftest import Secrets, Server, printed
from tests.waiting import eventually

pytestmark = pytest.mark.redis


class Outbox:
    """One note."""

    def __init__(self, note: bytes) -> None:
        self._notes = [(1, note)]

    async def pending(self, limit: int) -> list[tuple[int, bytes]]:
        return self._notes[:limit]

    async def forget(self, upto: int) -> None:
        self._notes.clear()


def report(node: str) -> NodeReport:
    return NodeReport(SCHEMA_VERSION, node, "session", 1, "boot", time.time(), AgentInfo("test"))


async def test_agent_and_reconciler_speak_with_each_other_and_are_refused_nothing(server: Server) -> None:
    """The daemons' own doors to Redis, both directions."""
    heard: list[NodeReport] = []

    def accept(one: NodeReport) -> None:
        heard.append(one)

    inbox = Inbox(server.settings("reconciler"), lambda: ["a"], accept, Metrics(), Ticks(), sweep_s=0.1)
    running = asyncio.create_task(inbox.run())
    agent, reconciler = (connect(server.settings(user), timeout_s=5) for user in ("agent", "reconciler"))
    note = encode(ChangeNote(SCHEMA_VERSION, "a", "session", 1))
    try:
        publisher = Publisher(agent, node="a", outbox=Outbox(note), metrics=AgentMetrics(), timeout_s=5)
        publisher.offer(encode(report("a")))
        assert await publisher.send(), publisher.problem
        await eventually("the report is heard", lambda: heard)
        stream = commands_stream("a")
        await reconciler.xadd(stream, {COMMAND_FIELD: b"{}"}, maxlen=100, approximate=True)
        await reconciler.expire(stream, 60)
        assert [raw for _, raw in await CommandStream(agent, node="a", timeout_s=5).new()] == [b"{}"]
        await eventually("reports can be read", lambda: inbox.ok)
    finally:
        await cancel(running)
        await agent.aclose()
        await reconciler.aclose()
    with server.client("admin") as admin:
        denied = [entry["object"] for entry in admin.acl_log() if entry["object"] != "client|setinfo"]
        assert denied == []
        assert admin.xlen(EVENTS_STREAM) == 1


FORGED: list[tuple[str, ...]] = [
    ("SET", report_key("b"), "forged"),
    ("SET", EVENTS_STREAM, "gone"),
    ("SET", commands_stream("a"), "x"),
    ("GET", report_key("b")),
    ("GET", report_key("a")),
    ("DEL", report_key("a")),
    ("XADD", commands_stream("a"), "*", "command", "forged"),
    ("XADD", commands_stream("b"), "*", "command", "forged"),
    ("XREAD", "STREAMS", commands_stream("b"), "0"),
    ("XREAD", "STREAMS", EVENTS_STREAM, "0"),
    ("XTRIM", EVENTS_STREAM, "MAXLEN", "0"),
    ("DEL", EVENTS_STREAM),
    ("KEYS", "*"),
    ("FLUSHALL",),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "npuwarden-node-a", "+@all", "~*"),
    ("EVAL", "return 1", "0"),
    ("PUBLISH", "x", "y"),
    ("SHUTDOWN",),
]


@pytest.fixture
def node_users(server: Server) -> Server:
    set_nodes(server, "a", "node/b")
    return server


def set_nodes(server: Server, *words: str) -> str:
    argv = [*NPU_WARDEN, "redis-acl", "nodes", *words, "--passwords", str(server.directory / "nodes")]
    argv += ["--url", server.url, "--password-file", str(server.directory / "admin")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_node(server: Server, node: str) -> redis.Redis:
    return server.client(f"npuwarden-node-{node}", server.directory / "nodes" / node)


def test_a_node_speaks_for_itself_and_for_nobody_else(node_users: Server) -> None:
    with as_node(node_users, "a") as mine:
        assert mine.set(report_key("a"), "mine", ex=60)
        assert mine.xadd(EVENTS_STREAM, {"note": "n"}, maxlen=100)
        assert mine.xread({commands_stream("a"): "0"}) == []
        for words in FORGED:
            with pytest.raises(redis.exceptions.NoPermissionError):
                mine.execute_command(*words)
    with as_node(node_users, "b") as other:
        assert other.set(report_key("b"), "b's own")


RECONCILER_MAY_NOT: list[tuple[str, ...]] = [
    ("SET", report_key("a"), "forged"),
    ("DEL", report_key("a")),
    ("XADD", EVENTS_STREAM, "*", "note", "x"),
    ("XREAD", "STREAMS", commands_stream("a"), "0"),
    ("EXPIRE", report_key("a"), "1"),
    ("KEYS", "*"),
    ("FLUSHALL",),
    ("ACL", "LIST"),
]


def test_the_reconciler_reads_reports_and_writes_commands_alone(server: Server) -> None:
    with server.client("reconciler") as client:
        for words in RECONCILER_MAY_NOT:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


def test_nobody_comes_in_without_a_password(server: Server) -> None:
    with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_users_of_nodes_survive_a_restart_and_other_passwords_of_the_rest(node_users: Server, secrets: Secrets) -> None:
    node_users.stop()
    rotated = printed()
    (node_users.directory / "users" / "users.acl").write_text(rotated["npuwarden-redis-users"]["users.acl"])
    node_users.start()
    with as_node(node_users, "a") as mine:
        assert mine.set(report_key("a"), "mine")
    with node_users.client("agent") as old, pytest.raises(redis.AuthenticationError):
        old.ping()
    (node_users.directory / "agent").write_text(rotated["npuwarden-redis-agent"]["password"])
    with node_users.client("agent") as new:
        assert new.ping()


def test_who_prints_new_passwords_is_told_that_redis_must_be_restarted() -> None:
    argv = [*NPU_WARDEN, "redis-acl", "secrets"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=True)
    restart = "kubectl -n npuwarden-system rollout restart statefulset npuwarden-redis"
    assert restart in done.stderr
    assert restart not in done.stdout, "that is for kubectl"


def test_a_password_stays_and_pruning_removes_the_others(node_users: Server) -> None:
    before = (node_users.directory / "nodes" / "a").read_text()
    set_nodes(node_users, "a", "--prune")
    assert (node_users.directory / "nodes" / "a").read_text() == before
    with as_node(node_users, "a") as mine:
        assert mine.ping()
    with as_node(node_users, "b") as removed, pytest.raises(redis.AuthenticationError):
        removed.ping()
    with node_users.client("agent") as shared:
        assert shared.ping(), "users that are not of single nodes stay"


def test_passwords_are_for_their_owner_alone(node_users: Server) -> None:
    for path in (node_users.directory / "nodes").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_where_nodes_have_users_agents_share_none() -> None:
    secrets = printed("--node-users")
    assert "npuwarden-redis-agent" not in secrets
    assert "user agent " not in secrets["npuwarden-redis-users"]["users.acl"]
    assert "user reconciler on #" in secrets["npuwarden-redis-users"]["users.acl"]


def test_redis_never_sees_a_password(server: Server, secrets: Secrets) -> None:
    passwords = [data["password"] for data in secrets.values() if "password" in data]
    assert len(set(passwords)) == 3
    text = (server.directory / "data" / "users.acl").read_text()
    assert not any(password in text for password in passwords)


def test_one_configuration_file_names_the_user_of_each_node() -> None:
    config = AgentConfig(redis=AgentRedis(username="npuwarden-node-{node}"))
    assert redis_settings(config, "a").username == user_of("a")
    assert redis_settings(AgentConfig(), "a").username is None


@pytest.mark.parametrize("node", ["", "*", "a b", "a* ~x", "A", "a)(+@all"])
def test_a_name_that_could_mean_more_than_one_key_is_no_node(node: str) -> None:
    with pytest.raises(ValueError, match="not the name of a Kubernetes node"):
        user_of(node)
