"""The storm over the real control plane, judged by its audit log."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from console.lab import rig_files
from shared.names import NAMESPACE
from tests.chaos.figures import bugs_said, told
from tests.chaos.http_proxy import HttpProxy
from tests.chaos.judge import Record, lost, violations
from tests.chaos.record import audited
from tests.chaos.storm import Storm
from tests.chaos.tcp_proxy import TcpProxy
from tests.chaos.toxics import Rigging
from tests.chaos.world import PlaneWorld
from tests.integration.daemons import Agent, Reconciler
from tests.integration.installation import ACCOUNT
from tests.integration.journal import Journal
from tests.integration.rig import DECODE, PREFILL, Rig
from tests.integration.test_ledger import LEDGER, VOLCANO
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.redis, pytest.mark.timeout(1800)]

STEPS = int(os.environ.get("NPUWARDEN_CHAOS_PLANE_STEPS", "20"))
SEED = int(os.environ.get("NPUWARDEN_CHAOS_SEED", "1"))
NODES, PODS = 4, 4
DELETES_PER_MIN = 12
NAMES = ("chaos-replica-0", "chaos-replica-1")
POLICY = {
    "detect": {"agent_silent_after_s": 8, "not_ready_after_s": 5},
    "isolate": {"hold_down_s": 1, "hold_down_max_s": 2, "reboot_probation_s": 0},
    "breaker": {"nodes": "100%", "min_nodes": 1000},
    "common_cause": {"nodes": 1000},
    "budget": {"restarting": "100%", "deletes_per_min": DELETES_PER_MIN},
}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@pytest.fixture
async def rigging(rig: Rig) -> AsyncIterator[Rigging]:
    many = {"fault-retry-times": "10000"}
    if not rig.api.find(f"/api/v1/namespaces/{VOLCANO}"):
        rig.api.post("/api/v1/namespaces", {"metadata": {"name": VOLCANO}})
    rig.add_nodes(NODES)
    rig.mindie(PREFILL, npus=4, labels=many)
    rig.mindie(DECODE, "decode", npus=4, labels=many)
    async with AsyncExitStack() as stack:
        leases = Journal(rig.api, {"Lease": LEASES})
        stack.callback(leases.close)
        ways = [await stack.enter_async_context(TcpProxy(rig.broker.port)) for _ in range(2)]
        tls, proxies, replicas = rig.plane.tls_for(ACCOUNT), [], []
        for number, name in enumerate(NAMES):
            proxy = await stack.enter_async_context(HttpProxy(name, rig.plane.url, tls=tls, seed=SEED + number))
            kubeconfig = rig.directory / f"{name}.kubeconfig"
            kubeconfig.write_text(rig_files.kubeconfig(proxy.url))
            proxies.append(proxy)
            replicas.append(Reconciler(rig.directory, kubeconfig, ways[1].url, POLICY))
        hosts = {name: rig.host(name) for name in rig.nodes}
        agents = {name: Agent(name, host, ways[0].url) for name, host in hosts.items()}
        for daemon in (*replicas, *agents.values()):
            stack.callback(daemon.kill)
            daemon.start()
        world = PlaneWorld(rig, leases)
        rigging = Rigging(world, hosts, agents, replicas, proxies, rig.broker, ways, PODS)
        await Storm(rigging, SEED).begin()
        # A pod that fails before its job stands in the ledger ends the job, as it does without the warden.
        await eventually("both jobs in the ledger", lambda: _in_ledger(rig, PREFILL) and _in_ledger(rig, DECODE), 60)
        yield rigging


def _in_ledger(rig: Rig, job: str) -> bool:
    ledger = rig.api.find(f"/api/v1/namespaces/{VOLCANO}/configmaps/{LEDGER}")
    return ledger is not None and f"{rig.namespace}/{job}-" in ledger["data"]["remain-retry-times"]


async def test_no_invariant_breaks_and_no_fault_is_lost(rigging: Rigging, rig: Rig) -> None:
    storm = Storm(rigging, SEED)
    await storm.blow(STEPS)
    await storm.calm()
    writes = await asyncio.to_thread(audited, Path(rig.plane.audit_log), frozenset(NAMES))
    record = Record(rigging.world.changes, writes, storm.truth, DELETES_PER_MIN)
    print(told("real control plane", storm, record))
    assert not (broken := violations(record)), "\n".join(broken)
    assert lost(storm.truth, storm.answered) == []
    assert record.deletions, "the storm has moved nothing"
    assert bugs_said(rigging) == []
