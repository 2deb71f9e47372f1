"""The reconciler of a virtual cluster: the real fold, plan and steps, driven against an object store.

What the daemon does with a network, time-outs and 32 actions at once happens here one call after the other, so that a
run is the same every time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from console.lab.cluster.journal import Change
from console.lab.cluster.problems import Problem
from console.lab.cluster.refusals import Refusals
from console.lab.cluster.resources import PODS, Target, parse_path
from console.lab.cluster.store import Store
from console.scenario.virtual_clock import MONO_AT_START, Clock
from reconciler.core import fold
from reconciler.core.actions import Action, Plan
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from reconciler.core.resources import Resource
from reconciler.core.state import State, World
from reconciler.core.steps import steps_for
from shared.model import NodeReport

ROUNDS = 20
"""Plans per instant. More are not needed: what waits for something waits for time."""
BACKOFF_S = (0.2, 30.0)
"""First and longest pause of an action that failed; it doubles."""
FORCE_GRACE_S = (0, 1)

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class _Retry:
    failures: int
    at: float


@dataclass
class _Term:
    """One leader's time in office: a new one knows only what is stored."""

    world: World
    retries: dict[str, _Retry] = field(default_factory=dict)


class Warden:
    """`look` is what happens whenever something may have changed; `next_due` is when to look even if nothing did."""

    def __init__(self, store: Store, clock: Clock, policy: Policy) -> None:
        self.refusals = Refusals()
        self.deleted: dict[str, str] = {}
        """Pods deleted so far, `namespace/name` or `namespace/name#2`, and how: force or grace."""
        self.unsettled: list[str] = []
        """Instants at which the plan still asked for something after `ROUNDS` rounds: a fault of the core."""
        self._store = store
        self._clock = clock
        self._policy = policy
        self._terms = 0
        self._incarnations: dict[str, list[str]] = {}
        for pod in store.objects("pods"):
            self._count(pod)
        self._term = self._take_over(leader_since=0.0)
        self._plan: Plan | None = None
        store.listen(self._seen)

    @property
    def world(self) -> World:
        return self._term.world

    def restart(self) -> None:
        """A new leader with nothing but what is stored in the cluster. Reports are for the caller to read again."""
        self._term = self._take_over(leader_since=self._clock.now().mono)

    def hear(self, report: NodeReport) -> None:
        fold.heard(self.world, report, self._clock.now())

    def look(self) -> None:
        """Plan and act until nothing more can be done at this instant."""
        for _ in range(ROUNDS):
            current = self.plan()
            todo = [action for action in current.actions if not self._waits(action)]
            if not todo:
                return
            for action in todo:
                if not self._waits(action):  # an earlier action on the same object may just have failed
                    self._act(action)
        self.unsettled.append(f"{self._clock.t:g} s: {', '.join(type(action).__name__ for action in todo)}")

    def plan(self) -> Plan:
        """What is to be done now, written down for `next_due`."""
        now = self._clock.now()
        fold.advance(self.world, now)
        self._plan = plan(self.snapshot(), now)
        return self._plan

    def snapshot(self) -> State:
        return self.world.snapshot()

    def next_due(self) -> float | None:
        """When the plan wants to be asked again, or a failed action may be tried again."""
        due = [retry.at for retry in self._term.retries.values() if retry.at > self._clock.t]
        if self._plan is not None and self._plan.wake_at is not None:
            due.append(self._plan.wake_at - MONO_AT_START)
        return min(due, default=None)

    def _take_over(self, *, leader_since: float) -> _Term:
        self._terms += 1
        world = World(policy=self._policy, leader_since=leader_since, holder=f"reconciler-{self._terms}")
        served = {(resource.group, resource.plural) for resource in self._store.resources}
        for resource in fold.WATCHED:
            if (resource.group, resource.plural) in served:
                world.kinds.add(resource.kind)
                found = [obj for obj in self._store.objects(resource.plural) if _watched(resource, obj)]
                fold.replace_all(world, resource.kind, found)
        return _Term(world)

    def _seen(self, change: Change) -> None:
        """The watch: every change is seen at once."""
        if change.resource is PODS and change.type == "ADDED":
            self._count(change.object)
        for resource in fold.WATCHED:
            same = (resource.group, resource.plural) == (change.resource.group, change.resource.plural)
            if same and _watched(resource, change.object):
                fold.observe(self.world, resource.kind, "gone" if change.type == "DELETED" else "set", change.object)

    def _count(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self._incarnations.setdefault(f"{metadata['namespace']}/{metadata['name']}", []).append(metadata["uid"])

    def _waits(self, action: Action) -> bool:
        retry = self._term.retries.get(action.key)
        return retry is not None and retry.at > self._clock.t

    def _act(self, action: Action) -> None:
        now = self._clock.now()
        result = self._drive(steps_for(action, self.world.holder, now))
        fold.outcome(self.world, action, result, now)
        if result.done:
            self._term.retries.pop(action.key, None)
            return
        last = self._term.retries.get(action.key)
        failures = last.failures + 1 if last else 1
        pause_s = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** (failures - 1))
        self._term.retries[action.key] = _Retry(failures, self._clock.t + pause_s)

    def _drive(self, step: Step) -> Outcome:
        try:
            call = next(step)
            while True:
                call = step.send(self._send(call))
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    def _send(self, call: Call) -> Reply:
        try:
            target = parse_path(call.path, self._store.resources)
            if not target.subresource and (refusal := self.refusals.take(_verb(call, target), _spelled(call, target))):
                raise refusal
        except Problem as problem:
            return Reply(problem.status, problem.body())
        before = self._store.get(target.resource.plural, target.namespace, target.name) if target.name else None
        body = msgspec.to_builtins(call.body)
        answer = self._store.request(
            call.method, call.path, params=dict(call.params), body=body, content_type=call.content_type
        )
        if answer.ok and call.method == "DELETE" and target.resource is PODS and before is not None:
            self._note_deletion(before, (body or {}).get("gracePeriodSeconds"))
        return Reply(answer.status, answer.body)

    def _note_deletion(self, pod: dict[str, Any], grace_s: int | None) -> None:
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        number = self._incarnations[name].index(metadata["uid"]) + 1
        label = name if number == 1 else f"{name}#{number}"
        forced = grace_s in FORCE_GRACE_S or self.deleted.get(label) == "force"
        self.deleted[label] = "force" if forced else "grace"


def _watched(resource: Resource, obj: dict[str, Any]) -> bool:
    """Whether the watch of this row shows the object: some rows watch one object by name, or by a label."""
    metadata = obj["metadata"]
    return resource.shows(metadata.get("namespace", ""), metadata["name"], metadata.get("labels") or {})


def _verb(call: Call, target: Target) -> str:
    return _VERBS.get(call.method) or ("get" if target.name else "list")


def _spelled(call: Call, target: Target) -> str:
    """The target as scenario files write it: Kind/namespace/name, or Kind/name."""
    name = target.name or (call.body or {}).get("metadata", {}).get("name", "")
    return "/".join(part for part in (target.resource.kind, target.namespace, name) if part)
