"""A reconciler's real HTTP API in a thread, answering from a state a test sets up, and the command line to ask it."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from console.main import main
from reconciler.api import application
from reconciler.core import fold
from reconciler.core.actions import Plan
from reconciler.core.kept_logs import KeptLogs
from reconciler.core.plan import plan
from reconciler.core.recovery import Recovery
from reconciler.core.state import State, World
from reconciler.inbox import BadMessage
from reconciler.metrics import Metrics
from shared.aio import Ticks, now
from shared.http_server import serving
from shared.model import AgentInfo, Chip, Fault, FaultLevel, NodeReport, fault_id
from shared.names import NAMESPACE

OBJECTS = Path(__file__).parents[1] / "scenarios" / "policy" / "objects"
FIRST_MINUTE_S = 61.0


def broken(chip: int, level: FaultLevel = FaultLevel.SEPARATE_NPU, *, confirmed: bool = True) -> Fault:
    code = "80E18402"
    return Fault(fault_id(code, chip), code, chip, level, now().wall - 300, confirmed)


@dataclass
class Replica:
    """What the API needs of a replica. `leads` False: somebody else does. `refused`: why its policy.toml is."""

    world: World
    leads: bool = True
    refused: str | None = None
    logs: KeptLogs = field(default_factory=lambda: KeptLogs([], "no logs are kept"))
    metrics: Metrics = field(default_factory=Metrics)
    ticks: Ticks = field(default_factory=Ticks)
    holder: str = "reconciler-7"

    def say(self, node: str, *faults: Fault) -> None:
        """The newest report of a node."""
        last = self.world.heard.get(node)
        seq = last.report.seq + 1 if last else 1
        chips = tuple(Chip(phy, "fault" if any(f.chip == phy for f in faults) else "ok") for phy in range(4))
        fold.heard(
            self.world,
            NodeReport(1, node, f"session-{node}", seq, "boot", now().wall, AgentInfo("1"), chips=chips, faults=faults),
            now(),
        )

    def newest(self) -> tuple[State, Plan] | None:
        if not self.leads:
            return None
        fold.advance(self.world, now())
        state = self.world.snapshot()
        return state, plan(state, now())

    def leader(self) -> str:
        return "reconciler-7"

    def policy_known(self) -> bool:
        return True

    def not_synced(self) -> list[str]:
        return []

    def policy_error(self) -> str | None:
        return self.refused

    def bad_messages(self) -> list[BadMessage]:
        return []

    def watched(self) -> State:
        return self.world.snapshot()

    async def kept(self, recovery: Recovery) -> KeptLogs:
        return self.logs


def add(world: World, *objects: dict[str, Any]) -> None:
    for obj in objects:
        obj["metadata"].setdefault("uid", f"uid-of-{obj['kind']}-{obj['metadata']['name']}")
        fold.observe(world, obj["kind"], "set", obj)


@pytest.fixture
def replica() -> Replica:
    """The leader of a small cluster that is well: six nodes, one model as two jobs."""
    world = World(leader_since=now().mono - FIRST_MINUTE_S)
    world.kinds.update({"AscendJob", "PodGroup"})
    for name in ("fleet.yaml", "llm.yaml"):
        add(world, *yaml.safe_load_all((OBJECTS / name).read_text()))
    made = Replica(world)
    for node in world.nodes:
        made.say(node)
    return made


@contextlib.contextmanager
def served(replica: Replica, address: str) -> Iterator[int]:
    """The API of `replica` on a free port of this address, in a thread of its own."""
    port: list[int] = []
    started, loop, done = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with serving(application(replica), f"{address}:0") as chosen:
            port.append(chosen)
            started.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10), "the API did not start"
    try:
        yield port[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


@pytest.fixture
def url(replica: Replica) -> Iterator[str]:
    """The API of `replica`, served on a free port."""
    with served(replica, "127.0.0.1") as port:
        yield f"http://127.0.0.1:{port}"


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """`run("nodes", "--url", url)`: the command in this process, as on a pipe (no terminal)."""

    def command(*args: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(main, list(args), env=env)

    return command


@pytest.fixture
def store() -> Store:
    made = Store(time.time)
    made.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    made.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "alpha"}, "spec": {}})
    return made


@pytest.fixture
def kubeconfig(store: Store, tmp_path: Path) -> Iterator[str]:
    """A kubeconfig of an API server over `store`, which runs in a thread."""
    started, loop, done = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    server = ApiServer(store)

    async def serve() -> None:
        async with server:
            started.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(10), "the API server did not start"
    yield written(tmp_path, server.url)
    loop.call_soon_threadsafe(done.set)
    thread.join(10)
    loop.close()


def written(directory: Path, url: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "lab", "user": {"token": "none"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)
