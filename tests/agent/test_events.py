"""The driver's events, from the stand-in library to ChipEvents."""

import asyncio
import os
import signal
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.detect.readings import ChipEvent
from agent.metrics import Metrics
from agent.sensors.child import Child
from agent.sensors.events import EventStream, parse_event
from console.lab.host import SimHost
from shared.aio import running
from tests.waiting import eventually

pytestmark = pytest.mark.slow


class Listener:
    def __init__(self, library: Path, *, init_timeout_s: float = 25.0) -> None:
        self.heard: list[ChipEvent] = []
        self.gaps = 0
        self.metrics = Metrics()
        self.stream = EventStream(
            library, on_events=self._hear, on_gap=self._gap, metrics=self.metrics, init_timeout_s=init_timeout_s
        )

    def _hear(self, events: Sequence[ChipEvent]) -> None:
        self.heard += events

    def _gap(self) -> None:
        self.gaps += 1

    @property
    def told(self) -> list[tuple[int, str, str, int | None]]:
        return [(event.phy, event.code, event.assertion, event.severity) for event in self.heard]


@asynccontextmanager
async def listening(library: Path) -> AsyncIterator[Listener]:
    listener = Listener(library)
    async with running(listener.stream.run()):
        await eventually("the subscription stands", lambda: listener.stream.subscribed, 30)
        yield listener


def children_of_this_process() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def event_child() -> int:
    for pid in children_of_this_process():
        if "dcmi_events.py" in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise AssertionError("no event child")


async def test_occur_recover_and_once_arrive_in_order_with_physical_ids(host: SimHost, library: Path) -> None:
    async with listening(library) as listener:
        host.occur(3, "80E01801", severity=3)
        host.recover(3, "80E01801")
        host.once(7, "8C2FA009", severity=0)
        await eventually("three events", lambda: len(listener.heard) == 3)
        assert listener.told == [
            (3, "80E01801", "occur", 3),
            (3, "80E01801", "recover", 3),
            (7, "8C2FA009", "once", 0),
        ]
        serials = [event.serial for event in listener.heard]
        assert serials == sorted(serials, key=lambda serial: serial or 0)
        assert len(set(serials)) == 3
        assert all(event.name for event in listener.heard)


async def test_nothing_is_replayed_so_a_poll_is_asked_for(host: SimHost, library: Path) -> None:
    host.occur(1, "80E01801")
    async with listening(library) as listener:
        assert listener.gaps == 1
        host.occur(2, "80E01801")
        await eventually("the new event", lambda: listener.heard)
        assert [event.phy for event in listener.heard] == [2]


async def test_a_killed_child_is_replaced_and_a_poll_asked_for(host: SimHost, library: Path) -> None:
    async with listening(library) as listener:
        os.kill(event_child(), 9)
        await eventually("a second subscription", lambda: listener.gaps == 2 and listener.stream.subscribed, 30)
        host.occur(4, "80E01801")
        await eventually("its events", lambda: listener.heard)
        assert listener.told == [(4, "80E01801", "occur", 3)]


async def test_a_stopped_child_is_replaced_and_a_poll_asked_for(
    host: SimHost, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.sensors.events.SILENT_S", 4.0)
    async with listening(library) as listener:
        stopped = event_child()
        os.kill(stopped, signal.SIGSTOP)
        await eventually("a second subscription", lambda: listener.gaps >= 2 and listener.stream.subscribed)
        assert event_child() != stopped
        host.occur(4, "80E01801")
        await eventually("its events", lambda: listener.heard)


async def test_a_subscription_that_dies_silently_is_noticed(host: SimHost, library: Path) -> None:
    async with listening(library) as listener:
        host.events(False)
        await eventually("the loss is said", lambda: "no events" in listener.stream.state, 30)
        assert listener.metrics.registry.get_sample_value("npuwarden_agent_subscribed") == 0


async def test_a_driver_without_events_is_said_once_and_asked_rarely(
    host: SimHost, library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host.events(False)
    listener = Listener(library)
    async with running(listener.stream.run()):
        await eventually("the refusal", lambda: "-8255" in listener.stream.state, 30)
        started = listener.metrics.registry.get_sample_value(
            "npuwarden_agent_children_started_total", {"child": "events"}
        )
        await asyncio.sleep(1.5)
        assert started == listener.metrics.registry.get_sample_value(
            "npuwarden_agent_children_started_total", {"child": "events"}
        )
    assert len([record for record in caplog.records if "no driver events" in record.message]) == 1


async def test_a_chip_that_came_back_is_subscribed_to(host: SimHost, library: Path) -> None:
    host.drop(7)
    async with listening(library) as listener:
        host.back(7)
        listener.stream.follow(frozenset(range(8)))
        await eventually("a new subscription", lambda: listener.gaps == 2 and listener.stream.subscribed, 30)
        host.occur(7, "80E01801")
        await eventually("the event", lambda: listener.heard)
        assert listener.heard[0].phy == 7


async def test_a_chip_that_no_subscription_names_costs_the_others_theirs_once(host: SimHost, library: Path) -> None:
    async with listening(library) as listener:
        listener.stream.follow(frozenset({*range(8), 99}))
        await eventually("a new subscription", lambda: listener.gaps == 2 and listener.stream.subscribed, 30)
        for _ in range(3):
            listener.stream.follow(frozenset({*range(8), 99}))
        host.occur(7, "80E01801")
        await eventually("an event by the same subscription", lambda: listener.heard)
        assert listener.gaps == 2
        listener.stream.follow(frozenset(range(8)))
        listener.stream.follow(frozenset({*range(8), 99}))
        await eventually("it is tried again once it has been away", lambda: listener.gaps == 3, 30)


async def test_children_end_with_their_parent(library: Path) -> None:
    async with listening(library):
        pid = event_child()
    assert pid not in children_of_this_process()


async def test_a_child_that_cannot_be_killed_is_the_only_one_until_it_has_died(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in the D state survives SIGKILL. None can be made here, so the signal is withheld."""
    monkeypatch.setattr("agent.sensors.child.ENDING_S", 0.1)
    monkeypatch.setattr("agent.sensors.events.RESTART_FIRST_S", 0.05)
    listener = Listener(library, init_timeout_s=0.05)

    def count(name: str, **labels: str) -> float | None:
        return listener.metrics.registry.get_sample_value(f"npuwarden_agent_{name}", labels)

    async with running(listener.stream.run()):
        with monkeypatch.context() as withheld:
            withheld.setattr(Child, "kill", lambda child: None)
            await eventually("the child is given up", lambda: "cannot be killed" in listener.stream.state)
            pid = event_child()
            await asyncio.sleep(1)
            assert count("children_started_total", child="events") == 1, "no second one beside it"
            assert count("children_abandoned") == 1
            assert str(pid) in listener.stream.state
        os.kill(pid, 9)
        await eventually("the next child", lambda: count("children_started_total", child="events") != 1)
        assert count("children_abandoned") == 0


def frame(kind: int, *, logic: int = 2, assertion: int = 1, code: int = 0x80E01801) -> bytes:
    body = struct.pack("=IHBBBBBBiiQ256s", code, logic, 112, 0, 0, 0, 2, assertion, 5, 9, 1, b"HBM\0rest")
    return (struct.pack("=i4x", kind) + body).ljust(360, b"\0")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(frame(0), ChipEvent(6, "80E01801", "occur", 2, 9, "HBM"), id="logic id 2 is chip 6"),
        pytest.param(
            frame(0, code=0x40F84E00, assertion=0), ChipEvent(6, "40F84E00", "recover", 2, 9, "HBM"), id="end"
        ),
        pytest.param(frame(0, logic=5), None, id="a chip that is not in the map"),
        pytest.param(frame(0, assertion=9), None, id="an assertion nobody knows"),
        pytest.param(frame(1), None, id="another kind of event"),
    ],
)
def test_an_event_as_the_driver_makes_it(raw: bytes, expected: ChipEvent | None) -> None:
    assert parse_event(raw, {2: 6}) == expected
