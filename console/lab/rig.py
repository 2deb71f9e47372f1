"""The whole warden on one machine: real agents, reconciler and Redis over simulated hosts and a simulated cluster.

Everything that is started here ends with the block, in order, whatever ends the block.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from console.lab import rig_files
from console.lab.broker import Broker
from console.lab.children import NPU_WARDEN, Child, RigError, free_ports
from console.lab.cluster.lab import LabCluster
from console.lab.drilling import redis_drills
from console.lab.host.build import BuildError
from console.lab.host.sim_host import SimHost
from console.lab.host.state import Generation, StateError
from console.lab.sole import sole_lab
from console.lab.watching import until
from shared.aio import running
from shared.names import CONDITION, NAMESPACE, report_key

GENERATION: Generation = "910B"
START_S = 60.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LabRig:
    """What stands while the block of `lab_rig` runs. `agents`: URL of each node's agent."""

    directory: Path
    cluster: LabCluster
    hosts: Mapping[str, SimHost]
    broker: Broker
    redis: Redis
    agents: Mapping[str, str]
    reconciler: str
    kubeconfig: Path
    policy: Path


@asynccontextmanager
async def lab_rig(
    directory: Path, *, nodes: int = 4, chips: int = 8, hold_down_s: float = 5.0, logs: Path | None = None
) -> AsyncIterator[LabRig]:
    """Start it all in `directory` (logs in `logs`, by default its `logs`) and run it while the block does.

    Each node is a directory of its own there: `npu-warden lab host ... --dir DIRECTORY/node-0`. Raises RigError or
    StepMissing when something does not start or another lab runs there, and RigError from the block when a daemon ends
    by itself.
    """
    logs = logs or directory / "logs"
    try:
        with sole_lab(directory):
            async with asyncio.TaskGroup() as watch, AsyncExitStack() as stack:
                yield await _start(directory, logs, nodes, chips, hold_down_s, watch, stack)
    except ExceptionGroup as group:
        # The group is only how the news of a dead daemon reaches the block: one cause is one exception.
        raise group.exceptions[0] from None


async def _start(
    directory: Path,
    logs: Path,
    nodes: int,
    chips: int,
    hold_down_s: float,
    watch: asyncio.TaskGroup,
    stack: AsyncExitStack,
) -> LabRig:
    broker = await asyncio.to_thread(_prepare, directory, logs)
    cluster = LabCluster(nodes=nodes, chips=chips)
    names = [node["metadata"]["name"] for node in cluster.store.objects("nodes")]
    hosts = await asyncio.to_thread(_make_hosts, directory, names, chips)
    await _run([broker.child], watch, stack)
    redis = await stack.enter_async_context(Redis.from_url(broker.url, protocol=2))
    await _within(START_S, "Redis answers", _redis_answers(redis))
    await stack.enter_async_context(cluster)
    cluster.store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    *ports, reconciler_port = free_ports(nodes + 1)
    kubeconfig, policy = directory / "kubeconfig", directory / "policy.toml"
    kubeconfig.write_text(rig_files.kubeconfig(cluster.url))
    policy.write_text(rig_files.policy_toml(hold_down_s=hold_down_s))
    await stack.enter_async_context(running(redis_drills(cluster.store, broker.child)))
    config = directory / "reconciler.toml"
    config.write_text(
        rig_files.reconciler_toml(redis_url=broker.url, port=reconciler_port, kubeconfig=kubeconfig, policy=policy)
    )
    argv = [*NPU_WARDEN, "reconciler", "--config", str(config)]
    daemons = [Child("the reconciler", argv, logs / "reconciler.log", _environment())]
    daemons += [
        _agent(name, hosts[name], broker.url, port, logs / f"agent-{name}.log")
        for name, port in zip(names, ports, strict=True)
    ]
    await _run(daemons, watch, stack)
    await _within(START_S, "every agent has reported to Redis", _reported(redis, names))
    await until(cluster.store, lambda: _judged(cluster), START_S, lambda: "the reconciler has not judged every node")
    return LabRig(
        directory=directory,
        cluster=cluster,
        hosts=hosts,
        broker=broker,
        redis=redis,
        agents={name: f"http://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)},
        reconciler=f"http://127.0.0.1:{reconciler_port}",
        kubeconfig=kubeconfig,
        policy=policy,
    )


def _prepare(directory: Path, logs: Path) -> Broker:
    try:
        for path in (directory, logs):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise RigError(f"{exc.filename}: {exc.strerror}: choose a directory that can be written") from exc
    return Broker(directory, logs / "redis.log")


def _make_hosts(directory: Path, names: list[str], chips: int) -> dict[str, SimHost]:
    try:
        return {name: SimHost.create(directory / name, GENERATION, chips) for name in names}
    except (BuildError, StateError) as exc:
        raise RigError(str(exc)) from exc


def _agent(name: str, host: SimHost, redis_url: str, port: int, log: Path) -> Child:
    config = host.directory / "agent.toml"
    config.write_text(rig_files.agent_toml(host, redis_url=redis_url, port=port))
    (host.directory / "agent").mkdir(exist_ok=True)
    argv = [*NPU_WARDEN, "agent", "--config", str(config)]
    return Child(f"the agent of {name}", argv, log, {**_environment(), **host.env(), "NODE_NAME": name})


def _environment() -> dict[str, str]:
    """The user's, less what would make all agents one node or send loopback traffic to a proxy."""
    return {
        key: value
        for key, value in os.environ.items()
        if key != "NPUWARDEN_NODE" and not key.lower().endswith("_proxy") and key != "KUBECONFIG"
    }


async def _run(children: list[Child], watch: asyncio.TaskGroup, stack: AsyncExitStack) -> None:
    """Start them at once; they are stopped together."""

    async def stop() -> None:
        await asyncio.gather(*(child.stop() for child in children))

    stack.push_async_callback(stop)
    for child in children:
        await child.start()
        watch.create_task(child.watch(), name=child.name)


async def _redis_answers(redis: Redis) -> None:
    while True:
        try:
            await redis.ping()
        except RedisError:
            await asyncio.sleep(POLL_S)
        else:
            return


async def _reported(redis: Redis, names: list[str]) -> None:
    while True:
        if all(await redis.mget([report_key(name) for name in names])):
            return
        await asyncio.sleep(POLL_S)


def _judged(cluster: LabCluster) -> bool:
    """The reconciler leads, and has heard of every node: it has written a condition, whatever it says."""
    conditions = [node["status"].get("conditions", []) for node in cluster.store.objects("nodes")]
    return all(any(one["type"] == CONDITION for one in some) for some in conditions)


async def _within(timeout_s: float, what: str, done: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await done
    except TimeoutError as exc:
        raise RigError(f"not within {timeout_s:.0f} s: {what}") from exc
