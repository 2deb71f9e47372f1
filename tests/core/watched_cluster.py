"""A virtual cluster whose reconciler may die before or after any of its calls, and whose every call is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from console.lab.cluster.problems import refused
from console.lab.cluster.resources import parse_path
from console.lab.cluster.store import Store
from console.scenario.virtual import VirtualCluster
from console.scenario.virtual_clock import Clock
from console.scenario.virtual_pods import Recreate
from console.scenario.virtual_warden import Warden
from reconciler.core import fold
from reconciler.core.actions import Plan
from reconciler.core.calls import Call, Reply
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from shared.model import Fault, Unknown
from tests.core.any_cluster import Layout
from tests.core.build import node
from tests.core.referee import Referee

Fates = Mapping[int, Literal["before", "after"]]
LATE = "late"
"""A node that is added when everything heals, with room for all."""


class Crash(Exception):
    """The leader dies here: what it has not sent is never sent."""


class WatchedWarden(Warden):
    """The real one; `referee` sees each call, `fates` says at which call it dies."""

    referee: Referee

    def __init__(self, store: Store, clock: Clock, policy: Policy) -> None:
        super().__init__(store, clock, policy)
        self.fates: Fates = {}
        self.calls = 0
        self._plans = 0
        self._refusing: list[tuple[str, str, int, int]] = []

    def refuse(self, method: str, kind: str, *, status: int, times: int) -> None:
        """The next `times` such calls are answered with `status`, whatever they are for."""
        self._refusing.append((method, kind, status, times))

    def refuse_nothing(self) -> None:
        self._refusing.clear()

    @property
    def refused_now(self) -> bool:
        return bool(self._refusing)

    def plan(self) -> Plan:
        """Planning twice on one world without acting gives one answer; looked at now and then, it takes time."""
        first = super().plan()
        self._plans += 1
        if self._plans % 8:
            return first
        now = self._clock.now()
        assert plan(self.snapshot(), now) == first, "one state, two plans"
        fold.advance(self.world, now)
        assert plan(self.snapshot(), now) == first, "looking a second time at one instant changes the plan"
        return first

    def _send(self, call: Call) -> Reply:
        fate = self.fates.get(self.calls)
        self.calls += 1
        if fate == "before":
            raise Crash
        self.referee.before(call, self.world.holder)
        reply = self._refused(call) or super()._send(call)
        self.referee.after(call, reply)
        if fate == "after":
            raise Crash
        return reply

    def _refused(self, call: Call) -> Reply | None:
        kind = parse_path(call.path, self._store.resources).resource.kind
        for number, (method, asked, status, times) in enumerate(self._refusing):
            if (method, asked) == (call.method, kind):
                self._refusing[number : number + 1] = [(method, asked, status, times - 1)] if times > 1 else []
                problem = refused(status, f"{method} {kind}")
                return Reply(problem.status, problem.body())
        return None


class WatchedCluster(VirtualCluster):
    """A layout on a virtual clock, and the referee of all that is done to it."""

    warden: WatchedWarden
    warden_type = WatchedWarden

    def __init__(self, layout: Layout, policy: Policy, fates: Fates) -> None:
        self.layout = layout
        self._refereed: Referee | None = None
        super().__init__(layout.objects, policy=policy, recreate=Recreate(3, 10, (*layout.nodes, LATE)))
        self._refereed = self.warden.referee = Referee(self.store, self.clock, layout, policy)
        for name in layout.nodes:
            self._refereed.said(name, ())
        self.warden.fates = fates

    @property
    def referee(self) -> Referee:
        return self.warden.referee

    def report(self, node: str, faults: Iterable[Fault] = (), unknown: Iterable[Unknown] = ()) -> None:
        faults = list(faults)
        super().report(node, faults, unknown)
        if self._refereed is not None:
            self._refereed.said(node, faults)

    def silence(self, node: str) -> None:
        super().silence(node)
        self.referee.silent(node)

    def redis(self, *, up: bool) -> None:
        super().redis(up=up)
        self.referee.redis(up=up)

    def release(self, node: str) -> None:
        super().release(node)
        self.referee.release_asked(node)

    def isolate(self, node: str) -> None:
        super().isolate(node)
        self.referee.isolate_asked(node)

    def settle(self) -> None:
        """As often as the leader dies, the next one takes over at once."""
        self.referee.look()
        while True:
            try:
                super().settle()
                break
            except Crash:
                self.restart_reconciler()
        self.referee.rests(self.tainted, refused=self.warden.refused_now)

    def unstick(self) -> None:
        """The kubelets end what hangs."""
        self.pods._stuck.clear()
        for pod in self.store.objects("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self.store.finish("ml", pod["metadata"]["name"])

    def add_room(self) -> None:
        late = node(LATE)
        late["status"]["allocatable"] = late["status"]["capacity"] = {"huawei.com/Ascend910": "99"}
        self.create(late)
        self.report(LATE)

    def converged(self) -> bool:
        return not self.tainted and not self.open_recoveries() and self.warden.unsettled == []

    def open_recoveries(self) -> list[str]:
        return [
            f"{r['spec']['unit']} {r['status']['phase']} {r['status'].get('reason', '')}: {r['status'].get('message')}"
            for r in self.store.objects("recoveries")
            if r["status"]["phase"] in ("Pending", "Isolating", "Deleting", "Recreating", "WaitingForCapacity", "Held")
        ]
