"""The storm over the lab cluster: two replicas, an agent on every node, Redis, and everything between them."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from console.lab import rig_files
from console.lab.cluster.lab import LabCluster
from console.lab.cluster.workloads import mindie_job, rings_config, storm_service
from console.lab.host import SimHost
from shared.names import NAMESPACE
from tests.chaos.figures import bugs_said, told
from tests.chaos.http_proxy import HttpProxy
from tests.chaos.judge import Record, isolations_over_the_breaker, lost, violations
from tests.chaos.storm import Storm
from tests.chaos.tcp_proxy import TcpProxy
from tests.chaos.toxics import Rigging
from tests.chaos.world import LabWorld
from tests.integration.daemons import Agent, Reconciler
from tests.redis_server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(1800)]

STEPS = int(os.environ.get("NPUWARDEN_CHAOS_STEPS", "60"))
SEED = int(os.environ.get("NPUWARDEN_CHAOS_SEED", "1"))
NODES, PODS = 4, 8
DELETES_PER_MIN = 30
POLICY: dict[str, dict[str, Any]] = {
    "detect": {"agent_silent_after_s": 8, "not_ready_after_s": 5},
    "isolate": {"hold_down_s": 1, "hold_down_max_s": 2, "reboot_probation_s": 0},
    "breaker": {"nodes": "100%", "min_nodes": 1000},
    "common_cause": {"nodes": 1000},
    "budget": {"restarting": "100%", "deletes_per_min": DELETES_PER_MIN},
}


BREAKER, WINDOW_S = 2, 10
BRAKED = POLICY | {
    "breaker": {"nodes": "50%", "min_nodes": BREAKER, "window_s": WINDOW_S},
    "common_cause": {"nodes": 3},
    "budget": {"restarting": "25%", "deletes_per_min": 8},
}
SLACK_S = 2.0
"""Between the second that the warden writes down and the moment at which the change was seen."""


@pytest.fixture
async def rigging(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Rigging]:
    policy = getattr(request, "param", POLICY)
    async with AsyncExitStack() as stack:
        broker = RedisServer(tmp_path)
        broker.start()
        stack.callback(broker.stop)
        ways = [await stack.enter_async_context(TcpProxy(broker.port)) for _ in range(2)]
        lab = await stack.enter_async_context(LabCluster(nodes=NODES))
        lab.store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        world = LabWorld(lab)
        stack.callback(world.close)
        many = {"fault-retry-times": "10000"}
        for name, role in (("prefill-0", "prefill"), ("decode-0", "decode")):
            job = mindie_job(name, role, namespace="mindie", npus=2, labels=many)  # type: ignore[arg-type]
            lab.apply(rings_config(job))
            lab.apply(job)
        lab.apply(storm_service("storm", namespace="aibrix", npus=2, labels=many))
        proxies, replicas = [], []
        for number in range(2):
            proxy = await stack.enter_async_context(HttpProxy(f"replica-{number}", lab.url, seed=SEED + number))
            kubeconfig = tmp_path / f"kubeconfig-{number}"
            kubeconfig.write_text(rig_files.kubeconfig(proxy.url))
            replica = Reconciler(tmp_path, kubeconfig, ways[1].url, policy)
            proxies.append(proxy)
            replicas.append(replica)
        hosts = {name: SimHost.create(tmp_path / name) for name in world.nodes}
        agents = {name: Agent(name, host, ways[0].url) for name, host in hosts.items()}
        for daemon in (*replicas, *agents.values()):
            stack.callback(daemon.kill)
            daemon.start()
        rigging = Rigging(world, hosts, agents, replicas, proxies, broker, ways, PODS)
        await Storm(rigging, SEED).begin()
        yield rigging


async def test_no_invariant_breaks_and_no_fault_is_lost(rigging: Rigging) -> None:
    storm = Storm(rigging, SEED)
    await storm.blow(STEPS)
    await storm.calm()
    assert isinstance(rigging.world, LabWorld)
    writes = sorted((w for proxy in rigging.proxies for w in proxy.writes), key=lambda write: write.at)
    record = Record(rigging.world.changes, writes, storm.truth, DELETES_PER_MIN)
    print(told("lab cluster", storm, record))
    assert not (broken := violations(record)), "\n".join(broken)
    assert lost(storm.truth, storm.answered) == []
    assert record.deletions, "the storm has moved nothing"
    assert bugs_said(rigging) == []


@pytest.mark.parametrize("rigging", [BRAKED], indirect=True, ids=["braked"])
async def test_the_brakes_hold_when_everything_breaks_and_let_go_when_it_is_over(rigging: Rigging) -> None:
    storm = Storm(rigging, SEED, ill_at_once=NODES)
    await storm.blow(STEPS)
    await storm.calm(answered=False)
    assert isinstance(rigging.world, LabWorld)
    writes = sorted((w for proxy in rigging.proxies for w in proxy.writes), key=lambda write: write.at)
    record = Record(rigging.world.changes, writes, storm.truth, BRAKED["budget"]["deletes_per_min"])
    print(told("lab cluster with brakes", storm, record, unanswered="held by the brakes until they healed"))
    assert not (broken := violations(record)), "\n".join(broken)
    over = list(isolations_over_the_breaker(record, nodes=BREAKER, window_s=WINDOW_S - SLACK_S))
    assert not over, "\n".join(over)
    assert bugs_said(rigging) == []
