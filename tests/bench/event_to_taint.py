"""How long it takes from a chip's fault to the taint, to the first delete, to an instance that serves again.

The whole path on a real control plane: driver library, agent, Redis, reconciler, API server, scheduler, kwok. Every run
breaks the chip under the same instance, wherever it lives by then, and heals it.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from shared.names import EVENTS_STREAM, NAMESPACE
from shared.wire import decode_note
from tests.bench.line import line
from tests.bench.processes import memory
from tests.cluster.plane import ControlPlane, build
from tests.integration.daemons import Agent, Reconciler
from tests.integration.installation import controllers_of, install
from tests.integration.journal import Entry
from tests.integration.rig import HBM, POLICY, PREFILL, Object, Rig, our_taint, serving, terminating, uids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

CHIP = 3
HOLD_DOWN_S = 0.5
RUNS = 10
RULES: dict[str, Any] = {**POLICY, "isolate": {"hold_down_s": HOLD_DOWN_S}}
GOALS_S = {"event_to_taint": 1.0, "report_to_taint": 0.026, "event_to_first_delete": 0.4}
MIB = 1024 * 1024


class Notes(threading.Thread):
    """When each fault's report was in Redis: agents write the node's key just before the note."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.raised: dict[str, float] = {}
        self._redis = redis.Redis.from_url(url)
        newest: Any = self._redis.xrevrange(EVENTS_STREAM, count=1)
        self._position = newest[0][0] if newest else b"0-0"
        self.start()

    def run(self) -> None:
        while True:
            try:
                answer: Any = self._redis.xread({EVENTS_STREAM: self._position}, block=1000)
            except redis.ConnectionError:
                return  # Redis ends with the bench
            at = time.monotonic()
            for _, entries in answer or ():
                self._position = entries[-1][0]
                for _, fields in entries:
                    note = decode_note(fields[b"note"])
                    if any(event.kind == "raised" for event in note.events):
                        self.raised[note.node] = at


def one_run(rig: Rig, notes: Notes) -> dict[str, float]:
    """Break, recover, heal; the seconds between the steps."""
    old = rig.running(PREFILL, 2)
    node = old[f"{PREFILL}-master-0"]["spec"]["nodeName"]
    begun = len(rig.journal.entries)
    notes.raised.pop(node, None)
    host = rig.host(node)

    def first(what: str, kind: str, holds: Any) -> Entry:
        def look() -> Entry | None:
            fresh = rig.journal.entries[begun:]
            return next((entry for entry in fresh if entry.kind == kind and holds(entry.object)), None)

        found = wait_until(what, look, 30)
        assert found is not None
        return found

    def whole() -> Entry | None:
        """The event with which both successors are Ready."""
        newest: dict[str, Object] = {}
        for entry in rig.journal.entries[begun:]:
            if entry.kind == "Pod" and entry.object["metadata"]["name"] in old:
                newest[entry.object["metadata"]["name"]] = entry.object
                fresh = [pod for pod in newest.values() if pod["metadata"]["uid"] not in before and serving(pod)]
                if len(fresh) == len(old):
                    return entry
        return None

    before = set(uids(old).values())
    started = time.monotonic()
    host.occur(CHIP, HBM)
    tainted = first("the taint", "Node", lambda n: n["metadata"]["name"] == node and our_taint(n))
    deleted = first("the first delete", "Pod", lambda p: p["metadata"]["uid"] in before and terminating(p))
    ready = wait_until("both pods Ready again", whole, 30)
    assert ready is not None
    recovered = first("Recovered", "Recovery", lambda r: r["status"]["phase"] == "Recovered")
    reported = wait_until("the note", lambda: notes.raised.get(node))
    assert reported is not None
    host.recover(CHIP, HBM)
    wait_until("the release", lambda: rig.taint(node) is None, 30)
    return {
        "event_to_report": reported - started,
        "report_to_taint": tainted.at - reported,
        "event_to_taint": tainted.at - started,
        "event_to_first_delete": deleted.at - started,
        "event_to_ready_again": ready.at - started,
        "event_to_recovered": recovered.at - started,
    }


@contextmanager
def warden(directory: Path, pod: str = "") -> Iterator[tuple[Rig, Reconciler, list[Agent], Notes]]:
    """Five nodes with an agent each, one instance of two pods and its neighbour; `pod` is the reconciler's."""
    with ExitStack() as stack:
        for name in ("plane", "redis", "warden"):
            (directory / name).mkdir()
        plane = ControlPlane(build(), directory / "plane", audited=False)
        plane.start()
        stack.callback(plane.stop)
        install(plane.api)
        controllers = controllers_of(plane)
        stack.callback(controllers.kill)
        broker = RedisServer(directory / "redis")
        broker.start()
        stack.callback(broker.stop)
        # With a token, as its pod has it: a client certificate is verified anew at each request.
        rig = Rig(plane, plane.kubeconfig_of(NAMESPACE, "npuwarden-reconciler"), broker, directory / "warden")
        stack.callback(rig.close)
        reconciler = rig.reconciler(policy=RULES, pod=pod)
        # As many rounds as it takes: the operator ends a job that has been restarted more often than that.
        old, _ = rig.mindie_pair(labels={"fault-retry-times": "100000"})
        assert old
        agents = [rig.agent(node) for node in rig.nodes]
        for agent in agents:
            agent.subscribed()
        reconciler.leads()
        yield rig, reconciler, agents, Notes(broker.url)


def run() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as directory,
        warden(Path(directory)) as (rig, reconciler, agents, notes),
    ):
        one_run(rig, notes)  # the first one warms connections and caches up
        taken = [one_run(rig, notes) for _ in range(RUNS)]
        for name in taken[0]:
            yield line(name, "s", [one[name] for one in taken], goal=GOALS_S.get(name))
        sizes = {"agent_8_chips": memory(agents[0].pid), f"reconciler_{len(rig.nodes)}_nodes": memory(reconciler.pid)}
        for name, size in sizes.items():
            for kind, of in size.items():
                yield line(f"{name}_{kind.lower()}", "MiB", [of / MIB], note="with children")
