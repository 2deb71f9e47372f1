"""Replicas whose machines disagree about the time agree about the times that stand in the cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import msgspec
import pytest

from reconciler.core.actions import Release
from reconciler.core.policy import Isolation, Policy
from reconciler.core.state import Record, World
from reconciler.kube.clock import ClusterClock
from shared.names import ISOLATION_ANNOTATION, TAINT_KEY
from tests.core.build import node
from tests.core.worlds import T0, decide, hear, report, world_of

HOLD_DOWN_S = 300.0


class Machine:
    """A machine and its clocks; the API server's shows `t`."""

    def __init__(self, ahead_s: float, mono: float = 1000.0) -> None:
        self.ahead_s, self._mono_at_start, self.t = ahead_s, mono, T0.wall
        self.clock = ClusterClock(lambda: self.t + self.ahead_s, lambda: self._mono_at_start + self.t - T0.wall)

    def asks(self, took_s: float = 0.0) -> None:
        asked_at = self.clock.now().mono
        self.t += took_s
        self.clock.heard(format_datetime(datetime.fromtimestamp(int(self.t), UTC), usegmt=True), asked_at)


def healing(until_wall: float) -> World:
    """A node without faults, whose isolation's hold-down ends then, as the leader before has written."""
    until = datetime.fromtimestamp(until_wall, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    record = Record("s", until, reasons=("SeparateNPU 80E18402@3",), hold_until=until)
    held = node("a")
    held["spec"]["taints"] = [{"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}]
    held["metadata"]["annotations"] = {ISOLATION_ANNOTATION: msgspec.json.encode(record).decode()}
    return world_of([held, node("b")], policy=Policy(isolate=Isolation(hold_down_s=HOLD_DOWN_S)))


@pytest.mark.parametrize("first_ahead_s", [-7200.0, 0.0, 7200.0])
@pytest.mark.parametrize("second_ahead_s", [-3600.0, 0.4, 3600.0])
def test_a_hold_down_ends_when_its_first_leader_has_said_whatever_clock_the_next_one_has(
    first_ahead_s: float, second_ahead_s: float
) -> None:
    first, second = Machine(first_ahead_s), Machine(second_ahead_s, mono=50_000.0)
    first.asks()
    world = healing(first.clock.now().wall + HOLD_DOWN_S)  # written by the first, which is gone 100 s later
    second.t += 100
    second.asks()
    world.leader_since = second.clock.now().mono
    released: list[float] = []
    while second.t < T0.wall + 400 and not released:
        hear(world, report("a", seq=int(second.t)), at=second.clock.now())
        if any(isinstance(action, Release) for action in decide(world, second.clock.now()).actions):
            released.append(second.t - T0.wall)
        second.t += 1
        second.asks()
    assert released
    assert HOLD_DOWN_S - 4 <= released[0] <= HOLD_DOWN_S + 6


@pytest.mark.parametrize(("ahead_s", "own"), [(0.0, True), (1.4, True), (-1.4, True), (3.0, False), (-3.0, False)])
def test_a_clock_that_is_right_within_the_dates_precision_is_used_as_it_is(ahead_s: float, own: bool) -> None:
    machine = Machine(ahead_s)
    machine.asks()
    assert (machine.clock.now().wall == machine.t + ahead_s) is own
    assert abs(machine.clock.now().wall - machine.t) <= 2.0
    assert abs(machine.clock.ahead_s - ahead_s) <= 0.51


def test_it_runs_on_between_answers_and_follows_a_clock_that_is_set_right() -> None:
    machine = Machine(600.0)
    machine.asks()
    machine.t += 30
    assert abs(machine.clock.now().wall - machine.t) <= 1.0
    machine.ahead_s = 0.0
    machine.asks()
    assert machine.clock.now().wall == machine.t


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Foo 2026 00:00:00 GMT"])
def test_an_answer_without_a_time_changes_nothing(date: str | None) -> None:
    machine = Machine(600.0)
    machine.clock.heard(date, machine.clock.now().mono)
    assert machine.clock.now().wall == machine.t + 600.0


def test_a_slow_answer_says_too_little_about_its_moment() -> None:
    machine = Machine(600.0)
    machine.asks(took_s=5.0)
    assert machine.clock.now().wall == machine.t + 600.0
