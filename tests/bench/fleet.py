"""A large cluster on the real kube-apiserver, and agents that are entries in Redis: for benches of the reconciler.

No controller, scheduler or kubelet runs: what is measured is the warden and the API server. The objects are put into
etcd as the API server would have stored them, which takes seconds where creating 50,000 of them would take minutes.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import redis

from shared.model import SCHEMA_VERSION, ChangeNote, Chip, Fault, FaultEvent, FaultLevel, NodeReport, fault_id
from shared.names import EVENTS_STREAM, report_key
from shared.names import NAMESPACE as WARDEN_NAMESPACE
from shared.wire import encode
from tests.bench.scale import scaled
from tests.cluster.plane import ControlPlane, build
from tests.core.build import job_with_pods
from tests.core.well import well
from tests.core.worlds import report
from tests.integration.daemons import Reconciler
from tests.integration.installation import install
from tests.integration.rig import forget_leader
from tests.redis_server import RedisServer

Object = dict[str, Any]

NAMESPACE = "ml"
CODE = "80E18402"
CREATED = "2026-01-01T00:00:00Z"
START_S = 180.0
AT_ONCE = 100
"""Objects in one transaction of etcd, which allows 128."""
NOTHING_HOLDS: Object = {
    "breaker": {"nodes": "100%", "min_nodes": 1_000_000},
    "common_cause": {"nodes": 1_000_000},
    "budget": {"restarting": "100%", "deletes_per_min": 1_000_000},
    "reschedule": {"force_after_s": 600.0},
}
"""policy.toml with the brakes off. No kubelet ends the pods here, so none is forced: each is deleted once."""


class Fleet:
    """names: of the nodes. Each has eight chips, a healthy report, and its share of the pods of two-pod jobs."""

    def __init__(self, plane: ControlPlane, broker: RedisServer, directory: Path, names: Sequence[str]) -> None:
        self.plane, self.broker, self.names = plane, broker, names
        self.redis = redis.Redis.from_url(broker.url)
        self.directory = directory
        # With a token, as its pod has it: a client certificate is verified anew at each request.
        self._kubeconfig = plane.kubeconfig_of(WARDEN_NAMESPACE, "npuwarden-reconciler")
        self._seq = 1
        self._daemons: list[Reconciler] = []

    def reconciler(self) -> Reconciler:
        """A replica that leads and has made its first plan."""
        made = self._replica()
        made.wait_for("leads now", START_S)
        made.wait_ready(lambda: made.metric("npuwarden_reconciler_plans_total") > 0, START_S)
        return made

    def compile(self) -> None:
        """Start a replica and end it once it has loaded its modules: the next finds their bytecode, as in an image."""
        made = self._replica()
        made.wait_for("HTTP on port", START_S)
        made.kill()
        forget_leader(self.plane.api)

    def _replica(self) -> Reconciler:
        made = Reconciler(self.directory, self._kubeconfig, self.broker.url, NOTHING_HOLDS)
        self._daemons.append(made)
        made.start()
        return made

    def say(self, names: Iterable[str], *faults: Fault) -> dict[str, float]:
        """Reports with exactly these faults, each with its note in the stream; when each was there (monotonic)."""
        self._seq += 1
        said: dict[str, float] = {}
        for chunk in _chunks(list(names), AT_ONCE):
            pipe = self.redis.pipeline(transaction=False)
            for name in chunk:
                made = a_report(name, *faults, seq=self._seq)
                pipe.set(report_key(name), encode(made), ex=3600)
                pipe.xadd(EVENTS_STREAM, {"note": encode(note_of(made))}, maxlen=100_000)
            pipe.execute()
            said |= dict.fromkeys(chunk, time.monotonic())
        return said

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.kill()
        self.redis.close()


def broken(level: FaultLevel, chip: int = 3) -> Fault:
    """A fault of now."""
    return Fault(fault_id(CODE, chip), CODE, chip, level, time.time(), confirmed=True)


def note_of(report: NodeReport) -> ChangeNote:
    """The stream's entry for a report: what is open in it is said to be raised, else something to be cleared."""
    raised = tuple(FaultEvent("raised", fault.id, report.at) for fault in report.faults)
    events = raised or (FaultEvent("cleared", fault_id(CODE, 3), report.at),)
    return ChangeNote(SCHEMA_VERSION, report.node, report.session, report.seq, events)


def a_report(name: str, *faults: Fault, seq: int = 1, chips: int = 8) -> NodeReport:
    shown = tuple(Chip(phy, health="fault" if any(f.chip == phy for f in faults) else "ok") for phy in range(chips))
    made = report(name, *faults, seq=seq, chips=shown)
    return msgspec.structs.replace(made, at=time.time())


@contextmanager
def fleet(directory: Path, nodes: int, pods: int) -> Iterator[Fleet]:
    """nodes, pods: how many of each at full size."""
    nodes, pods = scaled(nodes), scaled(pods)
    with ExitStack() as stack:
        for name in ("plane", "redis", "warden"):
            (directory / name).mkdir(parents=True)
        plane = ControlPlane(build(), directory / "plane", audited=False)
        stack.callback(plane.stop)
        for component in ("etcd", "kube-apiserver"):
            plane.start_component(component)
        install(plane.api)
        plane.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        broker = RedisServer(directory / "redis")
        broker.start()
        stack.callback(broker.stop)
        names = [f"node-{number:05}" for number in range(nodes)]
        _store(plane, _objects(names, pods))
        made = Fleet(plane, broker, directory / "warden", names)
        stack.callback(made.close)
        for chunk in _chunks(names, AT_ONCE):
            made.redis.mset({report_key(name): encode(a_report(name)) for name in chunk})
        yield made


def _objects(names: Sequence[str], pods: int) -> Iterator[tuple[str, Object]]:
    """(key in etcd, object): nodes as the warden leaves them when they are well, and jobs of two pods of two chips."""
    for name in names:
        yield f"/registry/minions/{name}", well(name)
    for number in range(pods // 2):
        first = 2 * number % len(names)
        job, *members = job_with_pods(f"job-{number:05}", (names[first], names[(first + 1) % len(names)]))
        yield f"/registry/mindxdl.gitee.com/ascendjobs/{NAMESPACE}/{job['metadata']['name']}", job
        for pod in members:
            # Its share of the chips: pods of a node take turns.
            turn = number // max(1, len(names) // 2) % 4
            pod["metadata"]["annotations"]["huawei.com/AscendReal"] = f"Ascend910-{2 * turn},Ascend910-{2 * turn + 1}"
            pod["spec"]["containers"][0]["resources"]["requests"] = {"huawei.com/Ascend910": "2"}
            yield f"/registry/pods/{NAMESPACE}/{pod['metadata']['name']}", pod


def _store(plane: ControlPlane, objects: Iterable[tuple[str, Object]]) -> None:
    """Through etcd's JSON gateway."""
    puts = []
    for key, made in objects:
        made["metadata"]["creationTimestamp"] = CREATED
        puts.append({"requestPut": {"key": _base64(key.encode()), "value": _base64(json.dumps(made).encode())}})
    for chunk in _chunks(puts, AT_ONCE):
        body = json.dumps({"success": chunk}).encode()
        with urllib.request.urlopen(f"{plane.etcd_url}/v3/kv/txn", body, timeout=30) as answer:
            if not json.load(answer).get("succeeded"):
                raise RuntimeError("etcd did not take the objects")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
