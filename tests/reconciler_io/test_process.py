"""The daemon as a process on a cluster of its own: it leads, acts, hands over, dies and comes back."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from shared import wire
from shared.model import AgentInfo, ChangeNote, Fault, FaultLevel, NodeReport
from shared.names import EVENTS_STREAM, LEASE, NAMESPACE, TAINT_KEY, report_key
from tests.process import free_ports
from tests.reconciler_io.conftest import Kubeconfig, node
from tests.reconciler_io.daemon import START_S, Daemon, write_config
from tests.redis_server import RedisServer
from tests.waiting import eventually

pytestmark = pytest.mark.slow

Start = Callable[..., Daemon]
FAULT = Fault("80E18402@3", "80E18402", 3, FaultLevel.SEPARATE_NPU, since=0.0, confirmed=True)


@pytest.fixture
def start(tmp_path: Path, server: ApiServer, kubeconfig: Kubeconfig, redis_server: RedisServer) -> Iterator[Start]:
    """``start("name")`` starts a replica on the lab's API server and the test's Redis."""
    path = kubeconfig(server.url)
    daemons: list[Daemon] = []

    def begin(name: str, crash_at: str = "") -> Daemon:
        config = write_config(tmp_path / f"{name}.toml", kubeconfig=path, redis_url=redis_server.url)
        daemon = Daemon(name, config, crash_at)
        daemon.start()
        daemons.append(daemon)
        return daemon

    yield begin
    for daemon in daemons:
        daemon.kill()


@contextlib.asynccontextmanager
async def agents(server: RedisServer) -> AsyncIterator[Callable[..., Any]]:
    client = redis.asyncio.Redis.from_url(server.url)

    async def say(node: str, seq: int, *faults: Fault) -> None:
        report = NodeReport(1, node, "one", seq, "boot", time.time(), AgentInfo("0.1"), faults=faults)
        await client.set(report_key(node), wire.encode(report))
        await client.xadd(EVENTS_STREAM, {"note": wire.encode(ChangeNote(1, node, "one", seq))})

    try:
        yield say
    finally:
        await client.aclose()


def tainted(store: Store, name: str) -> bool:
    held = store.get("nodes", "", name)
    return held is not None and any(taint["key"] == TAINT_KEY for taint in held["spec"].get("taints") or ())


def holder(store: Store) -> str:
    lease = store.get("leases", NAMESPACE, LEASE)
    return lease["spec"]["holderIdentity"] if lease else ""


async def test_it_taints_what_a_report_says_hands_over_and_ends_cleanly(
    start: Start, store: Store, redis_server: RedisServer
) -> None:
    store.load(node("a"))
    store.load(node("b"))
    first = start("first")
    await eventually("it leads", lambda: first.leads, timeout_s=START_S)
    async with agents(redis_server) as say:
        await say("a", 1, FAULT)
        await eventually("the taint", lambda: tainted(store, "a"))
        second = start("second")
        await eventually("the second waits", lambda: "ascendjobs: 0 objects" in second.said, timeout_s=START_S)
        assert not second.leads
        code, took_s = await asyncio.to_thread(first.terminate)
        assert (code, took_s < 5) == (0, True), first.tail()
        assert "has released the lease" in first.said
        await eventually("the second leads", lambda: second.leads, timeout_s=10)
        await say("b", 1, FAULT)
        await eventually("it acts", lambda: tainted(store, "b"))
    code, took_s = await asyncio.to_thread(second.terminate)
    assert (code, took_s < 5) == (0, True), second.tail()
    assert holder(store) == ""
    for daemon in (first, second):
        assert "Traceback" not in daemon.said
        assert "Unclosed" not in daemon.said


async def test_it_ends_in_time_even_when_nothing_answers(
    start: Start, store: Store, server: ApiServer, redis_server: RedisServer
) -> None:
    daemon = start("alone")
    await eventually("it leads", lambda: daemon.leads, timeout_s=START_S)
    server.latency_s = 60.0
    redis_server.stop()
    code, took_s = await asyncio.to_thread(daemon.terminate)
    assert (code, took_s < 5) == (0, True), daemon.tail()


@pytest.mark.timeout(120)  # two starts on a busy machine, and a lease of 15 s to wait out
async def test_it_dies_where_a_test_tells_it_to_and_the_next_one_goes_on(
    start: Start, store: Store, redis_server: RedisServer
) -> None:
    store.load(node("a"))
    store.load(node("b"))
    async with agents(redis_server) as say:
        await say("a", 1, FAULT)
        dying = start("dying", crash_at="after-taint")
        assert await asyncio.to_thread(dying.wait, START_S) == 137
        assert tainted(store, "a")  # the step was carried out, what follows it was not
        assert holder(store) != ""
        successor = start("successor")
        # Nobody released the lease: the successor waits for as long as it may still be valid.
        await eventually("the successor leads", lambda: successor.leads, timeout_s=START_S)
        await say("b", 1, FAULT)
        await eventually("it acts", lambda: tainted(store, "b"))


async def test_a_configuration_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "reconciler.toml"
    config.write_text("[kube]\nkubeconfig = 'absent.conf'\n")
    daemon = Daemon("refused", config)
    daemon.start()
    try:
        assert await asyncio.to_thread(daemon.wait, START_S) == 2
    finally:
        daemon.kill()
    (line,) = daemon.said.splitlines()
    assert line.startswith("reconciler: ")
    assert "absent.conf: no such file" in line


async def test_a_port_that_is_taken_is_one_line(tmp_path: Path, server: ApiServer, kubeconfig: Kubeconfig) -> None:
    port = server.url.rpartition(":")[2]
    config = tmp_path / "reconciler.toml"
    config.write_text(f'[kube]\nkubeconfig = "{kubeconfig(server.url)}"\n[http]\nlisten = "127.0.0.1:{port}"\n')
    daemon = Daemon("refused", config)
    daemon.start()
    try:
        assert await asyncio.to_thread(daemon.wait, START_S) == 2
    finally:
        daemon.kill()
    assert f"http.listen: cannot listen on 127.0.0.1:{port}" in daemon.said


async def test_an_api_server_that_is_not_there_yet_is_said_and_waited_for(
    tmp_path: Path, kubeconfig: Kubeconfig, store: Store, redis_server: RedisServer
) -> None:
    (port,) = free_ports(1)
    path = kubeconfig(f"http://127.0.0.1:{port}")
    daemon = Daemon("early", write_config(tmp_path / "early.toml", kubeconfig=path, redis_url=redis_server.url))
    daemon.start()
    try:
        await eventually(
            "it says so", lambda: f"watch nodes: 0 Unreachable: http://127.0.0.1:{port}" in daemon.said, START_S
        )
        async with ApiServer(store, port=port):
            await eventually("it leads", lambda: daemon.leads, timeout_s=START_S)
            code, took_s = await asyncio.to_thread(daemon.terminate)
        assert (code, took_s < 5) == (0, True), daemon.tail()
    finally:
        daemon.kill()
