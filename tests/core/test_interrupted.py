"""A leader may die between any two API calls. Whoever comes next ends in the same state and deletes nothing twice.

Patroni's idea: every interrupted prefix of the whole path is tried, with the real steps against an object store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.lab.cluster.store import Store
from reconciler.core import fold
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.core.plan import plan
from reconciler.core.resources import WATCHED
from reconciler.core.state import World
from reconciler.core.steps import steps_for
from shared.model import Instant
from shared.names import TAINT_KEY
from tests.core.build import job_with_pods, node, owner_ref
from tests.core.worlds import T0, a_fault, hear, report

pytestmark = pytest.mark.slow

Fate = Callable[[int], Literal["before", "after"] | None]

SPARES = ("x", "y")
VICTIMS = ("p-master-0", "p-worker-0")


class Crash(Exception):
    """The leader dies here: what it has not sent is never sent."""


class Cluster:
    """A store, a job of two pods that comes back on spare nodes, its untouched neighbour, and one faulty chip."""

    def __init__(self) -> None:
        self.t = 0.0
        self.calls = 0
        self.deletes: Counter[str] = Counter()
        self.store = Store(lambda: T0.wall + self.t)
        self.store.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "volcano-system"}})
        for obj in [*(node(n) for n in ("a", "b", "c", "d", *SPARES)), *self.jobs()]:
            self.store.load(obj)
        self.originals = {p["metadata"]["uid"] for p in self.store.objects("pods")}
        self.terms = 0

    @staticmethod
    def jobs() -> list[dict[str, Any]]:
        return [*job_with_pods("p", ("a", "b")), *job_with_pods("d", ("c", "d"))]

    @property
    def now(self) -> Instant:
        return Instant(T0.mono + self.t, T0.wall + self.t)

    def leader(self) -> World:
        """A new leader: what is stored in the cluster, and the reports."""
        self.terms += 1
        world = World(leader_since=self.now.mono - 100, holder=f"leader-{self.terms}")
        for resource in WATCHED:
            world.kinds.add(resource.kind)
            fold.replace_all(world, resource.kind, self.store.objects(resource.plural))
        hear(world, report("a", a_fault()), *(report(n) for n in ("b", "c", "d", *SPARES)), at=self.now)
        self.store.listen(
            lambda c: fold.observe(world, c.object["kind"], "gone" if c.type == "DELETED" else "set", c.object)
        )
        return world

    def send(self, call: Call) -> Reply:
        self.calls += 1
        if call.method == "DELETE":
            taints = self.store.request("GET", "/api/v1/nodes/a").body["spec"].get("taints") or []
            assert any(taint["key"] == TAINT_KEY for taint in taints), "a pod is deleted before its node is tainted"
            self.deletes[call.body["preconditions"]["uid"]] += 1
        reply = self.store.request(
            call.method, call.path, params=dict(call.params), body=call.body, content_type=call.content_type
        )
        return Reply(reply.status, reply.body)

    def kubelet_and_operator(self) -> None:
        """Ends what terminates; makes what is missing, under its name, on a spare node, Ready."""
        for name, spare in zip(VICTIMS, SPARES, strict=True):
            held = self.store.request("GET", f"/api/v1/namespaces/ml/pods/{name}")
            if held.status == 200 and held.body["metadata"].get("deletionTimestamp"):
                self.store.finish("ml", name)
                held = self.store.request("GET", f"/api/v1/namespaces/ml/pods/{name}")
            if held.status == 404:
                job = self.store.request("GET", "/apis/mindxdl.gitee.com/v1/namespaces/ml/ascendjobs/p").body
                new = next(p for p in job_with_pods("p", SPARES) if p["metadata"]["name"] == name)
                new["metadata"].pop("uid")
                new["metadata"]["ownerReferences"] = [owner_ref(job)]
                assert self.store.load(new) is not None
                assert spare in SPARES

    def run(self, fate: Fate) -> None:
        """80 rounds of plan and act, one second each. `fate` of a call's number: go on, or die before or after it."""
        world = self.leader()
        for _ in range(80):
            self.t += 1.0
            self.kubelet_and_operator()
            hear(world, report("a", a_fault(), seq=int(self.t) + 1), at=self.now)
            try:
                for action in self._plan(world):
                    result = self._drive(steps_for(action, world.holder, self.now), fate)
                    fold.outcome(world, action, result, self.now)
            except Crash:
                world = self.leader()

    def _plan(self, world: World) -> tuple[Any, ...]:
        fold.advance(world, self.now)
        return plan(world.snapshot(), self.now).actions

    def _drive(self, step: Step, fate: Fate) -> Outcome:
        try:
            call = next(step)
            while True:
                ends = fate(self.calls)
                if ends == "before":
                    self.calls += 1
                    raise Crash
                reply = self.send(call)
                if ends == "after":
                    raise Crash
                call = step.send(reply)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    def check(self) -> None:
        recoveries = self.store.objects("recoveries")
        assert [r["status"]["phase"] for r in recoveries] == ["Recovered"]
        pods = {p["metadata"]["name"]: p for p in self.store.objects("pods")}
        assert {n: pods[n]["spec"]["nodeName"] for n in VICTIMS} == dict(zip(VICTIMS, SPARES, strict=True))
        assert {pods[n]["metadata"]["uid"] for n in ("d-master-0", "d-worker-0")} <= self.originals
        assert set(self.deletes) == {"uid-p-master-0", "uid-p-worker-0"}, "a pod that is not the victim was deleted"


def test_the_whole_path_without_a_crash() -> None:
    cluster = Cluster()
    cluster.run(lambda _call: None)
    cluster.check()
    assert set(cluster.deletes.values()) == {1}
    assert 20 <= cluster.calls <= 60, "a path of another length: see that every prefix is still tried below"


@pytest.mark.parametrize("ends", ["before", "after"])
@pytest.mark.parametrize("at", range(60))
def test_a_crash_at_any_one_call_changes_nothing_in_the_end(at: int, ends: Literal["before", "after"]) -> None:
    cluster = Cluster()
    cluster.run(lambda call: ends if call == at else None)
    cluster.check()


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.integers(0, 120), st.sampled_from(["before", "after"]), max_size=12))
def test_neither_do_many(crashes: dict[int, Literal["before", "after"]]) -> None:
    cluster = Cluster()
    cluster.run(crashes.get)
    cluster.check()
