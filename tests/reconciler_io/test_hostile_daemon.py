"""The daemon among broken watches, forged messages and a frozen leader: it goes on, and says what is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis.asyncio

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from shared import wire
from shared.model import AgentInfo, Fault, FaultLevel, NodeReport
from shared.names import EVENTS_STREAM, LEASE, NAMESPACE, TAINT_KEY, report_key
from tests.reconciler_io.conftest import Kubeconfig, node
from tests.reconciler_io.daemon import START_S, Daemon, write_config
from tests.redis_server import RedisServer
from tests.waiting import eventually

Start = Callable[[str], Daemon]
FAULT = Fault("80E18402@3", "80E18402", 3, FaultLevel.SEPARATE_NPU, since=-1e18, confirmed=True)

FORGED = {
    "b": b"\xff\xfe",
    "c": b"[" * 200_000,
    "d": b'{"v":1,"node":"a","session":"x","seq":1,"boot_id":"","at":0,"agent":{"version":""}}',
    "e": b'{"v":2}',
    "f": b"x" * (2 << 20),
    "g": b'{"v":1,"node":"g","session":"x","seq":1e400,"boot_id":"","at":0,"agent":{"version":""}}',
    "h": b'{"v":1,"node":"h","session":"x","seq":1,"boot_id":"","at":0,"agent":{"version":""},'
    b'"faults":[{"id":"1","code":"1","chip":1,"level":"Unheard","since":0,"confirmed":true}]}',
}


@pytest.fixture
def start(tmp_path: Path, server: ApiServer, kubeconfig: Kubeconfig, redis_server: RedisServer) -> Iterator[Start]:
    path = kubeconfig(server.url)
    daemons: list[Daemon] = []

    def begin(name: str) -> Daemon:
        daemon = Daemon(name, write_config(tmp_path / f"{name}.toml", kubeconfig=path, redis_url=redis_server.url))
        daemon.start()
        daemons.append(daemon)
        return daemon

    yield begin
    for daemon in daemons:
        daemon.kill()


def tainted(store: Store, name: str) -> bool:
    held: Any = store.get("nodes", "", name)
    return any(taint["key"] == TAINT_KEY for taint in held["spec"].get("taints") or ())


def holder(store: Store) -> str:
    lease: Any = store.get("leases", NAMESPACE, LEASE)
    return str(lease["spec"]["holderIdentity"]) if lease else ""


async def say(url: str, name: str, seq: int, *faults: Fault) -> None:
    report = NodeReport(1, name, "one", seq, "boot", time.time(), AgentInfo("0.1"), faults=faults)
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.set(report_key(name), wire.encode(report))


async def test_forged_messages_and_broken_watches_do_not_keep_a_taint_away(
    start: Start, store: Store, server: ApiServer, redis_server: RedisServer
) -> None:
    for name in ("a", *FORGED):
        store.load(node(name))
    async with redis.asyncio.Redis.from_url(redis_server.url) as client:
        for name, raw in FORGED.items():
            await client.set(report_key(name), raw)
        await client.set(report_key("nowhere"), b"{}")
        daemon = start("one")
        await eventually("it leads", lambda: daemon.leads, timeout_s=START_S)
        for raw in (b"", b"\xff", b"[]", b'{"v":1,"node":"nowhere","session":"","seq":0}'):
            await client.xadd(EVENTS_STREAM, {"note": raw})
        await client.xadd(EVENTS_STREAM, {"other": b"x"})
    stop = asyncio.Event()

    async def shake() -> None:
        while not stop.is_set():
            server.cut_watches()
            store.compact()
            await asyncio.sleep(0.3)

    shaking = asyncio.create_task(shake())
    try:
        cpu = psutil.Process(daemon.pid).children(recursive=True) or [psutil.Process(daemon.pid)]
        before = sum(sum(p.cpu_times()[:2]) for p in cpu)
        began = time.monotonic()
        await say(redis_server.url, "a", 1, FAULT)
        await eventually("the taint", lambda: tainted(store, "a"), timeout_s=25)
        spent_s = sum(sum(p.cpu_times()[:2]) for p in cpu) - before
        assert spent_s < 0.5 * (time.monotonic() - began) + 2
    finally:
        stop.set()
        await shaking
    assert [name for name in FORGED if tainted(store, name)] == []
    assert "Traceback" not in daemon.said


@pytest.mark.timeout(120)  # two starts on a busy machine, and a lease of 15 s to wait out
async def test_a_leader_that_was_frozen_beyond_its_lease_writes_nothing_when_it_wakes(
    start: Start, store: Store, redis_server: RedisServer
) -> None:
    store.load(node("a"))
    frozen = start("frozen")
    await eventually("it leads", lambda: frozen.leads, timeout_s=START_S)
    was = holder(store)
    second = start("second")
    await eventually("the second waits", lambda: "ascendjobs: 0 objects" in second.said, timeout_s=START_S)
    os.kill(frozen.pid, signal.SIGSTOP)
    await say(redis_server.url, "a", 1, FAULT)
    await eventually("the second leads", lambda: second.leads, timeout_s=40)
    await eventually("it acts", lambda: tainted(store, "a"))
    os.kill(frozen.pid, signal.SIGCONT)
    await eventually("the first stands back", lambda: "stops leading" in frozen.said)
    assert holder(store) != was
    assert "Traceback" not in frozen.said + second.said
    assert "Isolate" not in frozen.said
