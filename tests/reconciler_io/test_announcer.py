"""Events are written beside everything else: aggregated, and never in anybody's way."""

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from console.lab.cluster.store import Store
from reconciler.announcer import LOOP, Announcer
from reconciler.core import fold
from reconciler.core.actions import Hold, Incident
from reconciler.core.calls import Call, Reply
from reconciler.core.events import event
from reconciler.core.state import World
from reconciler.kube.client import KubeClient
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks
from tests.reconciler_io.conftest import node
from tests.waiting import eventually


def isolated(name: str = "a", message: str = "NoSchedule") -> Call:
    return event("Node", "", name, f"uid-{name}", "NPUIsolated", message, "Warning", aio.now())


@dataclass
class Voice:
    announcer: Announcer
    metrics: Metrics
    ticks: Ticks

    def outcomes(self, word: str) -> float:
        return self.metrics.registry.get_sample_value("npuwarden_reconciler_events_total", {"outcome": word}) or 0.0


def events(store: Store) -> list[dict[str, Any]]:
    return list(store.objects("events"))


def tells(store: Store, message: str) -> bool:
    return [event["message"] for event in events(store)] == [message]


@pytest.fixture
async def voice(client: KubeClient) -> AsyncIterator[Voice]:
    metrics, ticks = Metrics(), Ticks()
    announcer = Announcer(client, metrics, ticks)
    async with aio.running(announcer.run()):
        yield Voice(announcer, metrics, ticks)
    assert LOOP not in "".join(ticks.late())


async def test_the_same_again_is_a_higher_count(voice: Voice, store: Store) -> None:
    for number in range(1, 4):
        voice.announcer.say(isolated(message=f"the {number}th"))
        await eventually("it is told", functools.partial(tells, store, f"the {number}th"))
        assert [event["count"] for event in events(store)] == [number]


async def test_an_event_that_has_expired_comes_anew(voice: Voice, store: Store) -> None:
    voice.announcer.say(isolated())
    await eventually("it is told", lambda: len(events(store)) == 1)
    metadata = events(store)[0]["metadata"]
    store.request("DELETE", f"/api/v1/namespaces/default/events/{metadata['name']}")
    voice.announcer.say(isolated())
    await eventually("it is told again", lambda: [event["count"] for event in events(store)] == [2])


async def test_a_refused_event_is_said_in_the_log_once(
    voice: Voice, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            call = event(
                "AscendJob", "no-such-namespace", f"job-{number}", f"u{number}", "Recovered", "m", "Normal", aio.now()
            )
            voice.announcer.say(call)
        await eventually("all are given up", lambda: voice.outcomes("refused") == 3)
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    assert "Recovered" in said[0]
    assert "no-such-namespace/job-0" in said[0]
    voice.announcer.say(isolated())
    await eventually("others are told", lambda: len(events(store)) == 1)


async def test_a_refusal_is_told_when_it_begins_and_not_at_every_plan(voice: Voice, store: Store) -> None:
    world = World()
    fold.observe(world, "Node", "set", node("a"))
    hold = Hold("a", "breaker", "too many nodes at once")
    for holds in ([hold], [hold], [], [hold]):
        voice.announcer.refused(world.snapshot(), holds, aio.now())
    await eventually("it is told", lambda: [(e["reason"], e["count"]) for e in events(store)] == [("Breaker", 2)])


class Busy:
    """An API server that is too busy for the first call."""

    def __init__(self, client: KubeClient) -> None:
        self._client, self._calls = client, 0

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        self._calls += 1
        return Reply(429) if self._calls == 1 else await self._client.send(call, timeout_s=timeout_s)


async def test_an_incident_that_grows_is_told_again_and_one_that_stands_is_not(voice: Voice, store: Store) -> None:
    world = World()
    fold.observe(world, "Node", "set", node("a"))

    def found(*members: str) -> list[Incident]:
        return [Incident("domain-1", "domain", "rack=1", "", f"{len(members)} nodes broke", members, ())]

    for members in (("a", "b"), ("a", "b"), ("a", "b", "c"), ("a", "c")):
        voice.announcer.incidents(world.snapshot(), found(*members), aio.now())
    voice.announcer.incidents(world.snapshot(), [], aio.now())
    await eventually("both are told", lambda: len(events(store)) == 2)
    told = {event["reason"]: event for event in events(store)}
    assert told.keys() == {"Incident", "IncidentOver"}
    assert (told["Incident"]["count"], "a, b, c" in told["Incident"]["message"]) == (2, True)


async def test_trouble_of_the_api_server_loses_nothing(client: KubeClient, store: Store) -> None:
    metrics = Metrics()
    announcer = Announcer(Busy(client), metrics, Ticks())
    async with aio.running(announcer.run()):
        for node in ("a", "b"):
            announcer.say(isolated(node))
        await eventually("both are told", lambda: len(events(store)) == 2)
    assert Voice(announcer, metrics, Ticks()).outcomes("again") == 1


class Deaf:
    """An API server that does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        self.asked.set()
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        return Reply(0)


async def test_nobody_waits_for_an_api_server_that_does_not_answer() -> None:
    deaf = Deaf()
    announcer = Announcer(deaf, Metrics(), Ticks())
    async with aio.running(announcer.run()):
        announcer.say(isolated())
        async with asyncio.timeout(5):
            await deaf.asked.wait()
        began = time.monotonic()
        for number in range(1000):
            announcer.say(isolated(f"node-{number}"))
        assert time.monotonic() - began < 2.0


async def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.core.event_book.MAX_SERIES", 2)
    metrics = Metrics()
    announcer = Announcer(Deaf(), metrics, Ticks())
    for number in range(5):
        announcer.say(isolated(f"node-{number}"))
    assert Voice(announcer, metrics, Ticks()).outcomes("dropped") == 3
