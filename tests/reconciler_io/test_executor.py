"""The executor: in order, one at a time per object, never after the lease, and patient with what fails."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.core.actions import Action, Isolate, Release, SetCondition
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.core.objects import Node
from reconciler.core.state import Record
from reconciler.core.steps import steps_for
from reconciler.core.taints import want
from reconciler.executor import AT_ONCE, TELLING_AT_ONCE, Executor
from reconciler.kube.client import KubeClient
from reconciler.metrics import Metrics
from shared import aio
from shared.names import TAINT_KEY
from tests.reconciler_io.conftest import node
from tests.waiting import eventually

Drive = Callable[[Action], Step]


@dataclass
class Hand:
    """An executor on a lab cluster and what it has told of its outcomes."""

    executor: Executor
    outcomes: list[tuple[Action, Outcome]]
    metrics: Metrics
    aside: list[Call]
    """Calls that no step waited for."""

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"npuwarden_reconciler_{name}", labels) or 0.0

    def take(self, actions: Sequence[Action]) -> None:
        """A plan that was made just now."""
        self.executor.take(actions, as_of=time.monotonic())

    def told_more_than(self, count: int) -> bool:
        return len(self.outcomes) > count

    @property
    def done(self) -> list[bool]:
        return [outcome.done for _, outcome in self.outcomes]

    @property
    def reasons(self) -> list[str]:
        return [outcome.reason for _, outcome in self.outcomes]


def make(client: KubeClient, lease_s: float = 60.0, steps: Drive | None = None) -> Hand:
    outcomes: list[tuple[Action, Outcome]] = []
    aside: list[Call] = []
    metrics = Metrics()
    valid_until = time.monotonic() + lease_s
    executor = Executor(
        client,
        steps or (lambda action: steps_for(action, "me", aio.now())),
        lambda action, outcome: outcomes.append((action, outcome)),
        lambda: valid_until,
        aside.append,
        metrics,
    )
    return Hand(executor, outcomes, metrics, aside)


@pytest.fixture
async def hand(client: KubeClient) -> AsyncIterator[Hand]:
    hand = make(client)
    yield hand
    await hand.executor.close()


def isolate(store: Store, name: str) -> Isolate:
    """The action as a plan makes it: on the node as it is now."""
    held = store.get("nodes", "", name) or store.load(node(name))
    record = Record(session="s", since="2026-01-01T00:00:00Z", reasons=("a test",))
    return Isolate(msgspec.convert(held, Node), want("NoSchedule", "SeparateNPU"), record)


def tainted(store: Store, name: str) -> bool:
    held = store.get("nodes", "", name)
    assert held is not None
    return any(taint["key"] == TAINT_KEY for taint in held["spec"].get("taints") or ())


async def test_an_action_is_carried_out_and_its_outcome_told(hand: Hand, store: Store) -> None:
    action = isolate(store, "a")
    hand.take([action])
    await eventually("the outcome", lambda: hand.done == [True])
    assert tainted(store, "a")
    assert hand.outcomes[0][0] is action
    assert hand.sample("actions_total", kind="Isolate", outcome="done") == 1
    await eventually("an empty queue", lambda: hand.sample("queue") == 0)


async def test_no_action_waits_for_an_event(hand: Hand, store: Store) -> None:
    """It is handed on, and the step goes on in the same moment: its reply says nothing."""
    hand.take([isolate(store, "a")])
    await eventually("the outcome", lambda: hand.done == [True])
    assert [call.body["reason"] for call in hand.aside] == ["NPUIsolated"]
    assert not list(store.objects("events")), "the executor itself writes none"


async def test_no_write_begins_once_the_lease_may_pass_on(client: KubeClient, store: Store) -> None:
    hand = make(client, lease_s=4.9)  # less than a request may take
    hand.take([isolate(store, "a")])
    await eventually("the refusal", lambda: hand.reasons == ["lease"])
    assert not tainted(store, "a")
    await hand.executor.close()


async def test_reads_go_on_until_the_first_write(client: KubeClient, store: Store) -> None:
    seen: list[int] = []

    def steps(_action: Action) -> Generator[Call, Reply, Outcome]:
        reply = yield Call("GET", "/api/v1/nodes/a")
        seen.append(reply.status)
        yield Call("DELETE", "/api/v1/nodes/a")
        return Outcome(True)

    hand = make(client, lease_s=1.0, steps=steps)
    hand.take([isolate(store, "a")])
    await eventually("the refusal", lambda: hand.reasons == ["lease"])
    assert seen == [200]
    assert store.get("nodes", "", "a") is not None
    await hand.executor.close()


async def test_a_conflict_is_resolved_on_what_is_there_now(hand: Hand, store: Store) -> None:
    action = isolate(store, "a")
    foreign = {"spec": {"taints": [{"key": "someone/else", "effect": "NoSchedule"}]}}
    store.request("PATCH", "/api/v1/nodes/a", body=foreign, content_type="application/merge-patch+json")
    hand.take([action])
    await eventually("the outcome", lambda: hand.done == [True])
    held = store.get("nodes", "", "a")
    assert held is not None
    assert {taint["key"] for taint in held["spec"]["taints"]} == {"someone/else", TAINT_KEY}


async def test_a_failing_key_backs_off_while_others_go_on(hand: Hand, store: Store) -> None:
    store.refuse("patch", "Node/a", 500, times=3)
    bad, good = isolate(store, "a"), isolate(store, "b")
    hand.take([bad, good])
    await eventually("both are told", lambda: len(hand.done) == 2)
    assert (tainted(store, "a"), tainted(store, "b")) == (False, True)
    until = hand.executor.wake_at()
    assert until is not None
    hand.take([bad])  # at once again: it is left alone
    assert hand.executor.wake_at() == until
    assert len(hand.done) == 2

    while not tainted(store, "a"):  # as the planner does: again when the executor says so
        due = hand.executor.wake_at()
        await asyncio.sleep(max(0.0, (due or 0) - time.monotonic()))
        told = len(hand.done)
        hand.take([bad])
        await eventually("an outcome", functools.partial(hand.told_more_than, told))
    assert hand.sample("actions_total", kind="Isolate", outcome="api") == 3
    assert hand.executor.wake_at() is None


async def test_the_server_says_how_long_to_wait(hand: Hand, store: Store) -> None:
    store.refuse("patch", "Node/a", 429)  # the lab asks for 1 s
    began = time.monotonic()
    hand.take([isolate(store, "a")])
    await eventually("the outcome", lambda: hand.done == [False])
    until = hand.executor.wake_at()
    assert until is not None
    assert until >= began + 1.0


async def test_a_day_that_a_proxy_asks_for_is_a_minute(hand: Hand, store: Store) -> None:
    def refused(action: Action) -> Step:
        yield Call("GET", "/api/v1/nodes/a")
        return Outcome(False, "busy")

    class Proxy:
        async def send(self, call: Call, *, timeout_s: float) -> Reply:
            return Reply(503, {"details": {"retryAfterSeconds": 86_400}})

    executor = Executor(Proxy(), refused, lambda *_: None, lambda: time.monotonic() + 60, lambda _: None, hand.metrics)
    executor.take([isolate(store, "a")], as_of=time.monotonic())
    await eventually("the back-off", lambda: executor.wake_at() is not None)
    wake_at = executor.wake_at()
    assert wake_at is not None
    assert 30 < wake_at - time.monotonic() <= 60
    await executor.close()


async def test_no_answer_is_an_outcome(hand: Hand, store: Store, server: ApiServer) -> None:
    action = isolate(store, "a")
    server.down = True
    hand.take([action])
    await eventually("the outcome", lambda: hand.reasons == ["no-answer"])


async def test_actions_of_one_key_keep_the_order_and_stop_at_the_first_failure(hand: Hand, store: Store) -> None:
    first = isolate(store, "a")
    second = Release(first.node, "healed")
    hand.take([first, second])
    await eventually("both", lambda: len(hand.outcomes) == 2)
    assert [type(action).__name__ for action, _ in hand.outcomes] == ["Isolate", "Release"]
    assert not tainted(store, "a")

    store.refuse("patch", "Node/b", 500)
    third = isolate(store, "b")
    hand.take([third, Release(third.node, "healed")])
    await eventually("the failure", lambda: hand.done == [True, True, False])
    await eventually("nothing waits", lambda: hand.sample("queue") == 0)
    assert len(hand.outcomes) == 3


class Gate:
    """Steps that wait in the server's answer until ``open``; counts how many are under way, and of which key."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def steps(self, action: Action) -> Generator[Call, Reply, Outcome]:
        self.begun.append(action.key)
        yield Call("GET", "/api/v1/nodes/x")
        return Outcome(True)


async def test_a_key_under_way_is_not_begun_twice_and_a_newer_plan_replaces_the_rest(
    client: KubeClient, store: Store, server: ApiServer
) -> None:
    gate = Gate()
    hand = make(client, steps=gate.steps)
    a, b = isolate(store, "a"), isolate(store, "b")
    server.latency_s = 0.3
    hand.take([a, a])
    hand.take([a, b])  # a runs: only b is begun; the second a of the older plan is dropped
    await eventually("both are through", lambda: len(hand.done) == 2)
    assert gate.begun == [a.key, b.key]
    hand.take([a])
    await eventually("a again", lambda: gate.begun == [a.key, b.key, a.key])
    await hand.executor.close()


async def test_a_plan_that_did_not_know_of_an_outcome_does_not_repeat_its_action(hand: Hand, store: Store) -> None:
    action, began = isolate(store, "a"), time.monotonic()
    hand.take([action])
    await eventually("the outcome", lambda: hand.done == [True])
    await eventually("nothing runs", lambda: hand.sample("queue") == 0)
    hand.executor.take([action], as_of=began)  # made while the action ran
    assert hand.sample("queue") == 0
    hand.take([action])
    await eventually("a plan that knew of it is carried out", lambda: hand.done == [True, True])


async def test_no_more_than_so_many_at_once(client: KubeClient, store: Store, server: ApiServer) -> None:
    gate = Gate()
    hand = make(client, steps=gate.steps)
    actions = [isolate(store, f"n{i}") for i in range(AT_ONCE + 8)]
    server.latency_s = 0.3
    hand.take(actions)
    await eventually("some are under way", lambda: bool(gate.begun))
    assert len(gate.begun) == AT_ONCE
    await eventually("all are through", lambda: len(hand.done) == len(actions))
    assert gate.begun == [action.key for action in actions]
    await hand.executor.close()


async def test_what_only_tells_leaves_room_for_a_taint(client: KubeClient, store: Store, server: ApiServer) -> None:
    gate = Gate()
    hand = make(client, steps=gate.steps)
    conditions = [SetCondition(isolate(store, f"n{i}").node, "True", "Healthy", "") for i in range(AT_ONCE)]
    server.latency_s = 0.3
    hand.take(conditions)
    await eventually("some are under way", lambda: bool(gate.begun))
    assert len(gate.begun) == TELLING_AT_ONCE
    server.latency_s = 0.0
    hand.take([isolate(store, "taint"), *conditions])
    await eventually("all are through", lambda: len(hand.done) == len(conditions) + 1)
    assert gate.begun[TELLING_AT_ONCE] == "Node/taint"
    await hand.executor.close()


async def test_a_bug_in_a_step_is_an_outcome_and_spares_the_others(client: KubeClient, store: Store) -> None:
    def steps(action: Action) -> Generator[Call, Reply, Outcome]:
        reply = yield Call("GET", "/api/v1/nodes/x")
        if action.key == "Node/a":
            raise LookupError(reply.status)
        return Outcome(True)

    hand = make(client, steps=steps)
    hand.take([isolate(store, "a"), isolate(store, "b")])
    await eventually("both are told", lambda: sorted(hand.reasons) == ["", "bug"])
    await hand.executor.close()


async def test_closing_ends_what_runs(client: KubeClient, store: Store, server: ApiServer) -> None:
    hand = make(client)
    action: Any = isolate(store, "a")
    server.latency_s = 30.0
    hand.take([action])
    began = time.monotonic()
    await hand.executor.close()
    assert time.monotonic() - began < 2
    assert hand.outcomes == []
    assert not tainted(store, "a")
