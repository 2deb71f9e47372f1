"""Injected misbehaviour of the driver: wrong return codes, slowness, hangs, and the watch for misuse by two threads."""

import signal
import time

import pytest
from msgspec.structs import replace

from console.lab.host import SimHost
from console.lab.host.state import DriverRule, HostState, Match
from tests.lab_host.child import out
from tests.lab_host.conftest import MakeChild
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

OK, INNER, IOCTL, NOT_READY, OCCUPIED = 0, -8005, -8009, -8012, -8020


def rule(host: SimHost, function: str, what: DriverRule) -> None:
    def change(state: HostState) -> HostState:
        return replace(state, faults=replace(state.faults, dcmi={**state.faults.dcmi, function: what}))

    host.change(change)


def test_every_reading_of_one_chip_fails_and_its_ids_do_not(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    host.error(3, INNER)
    assert child.health(3)[0] == INNER
    assert child.codes(3)[0] == INNER
    assert child.call("dcmi_get_device_temperature", 3, 0, out()).ret == INNER
    assert child.call("dcmi_get_device_logic_id", out(), 3, 0).ret == OK
    assert child.health(2) == (OK, 0)
    host.clear(3)
    assert child.health(3) == (OK, 0)


def test_two_chips_can_fail_at_once(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    host.error(3, INNER)
    host.error(5, NOT_READY)
    assert (child.health(3)[0], child.health(5)[0]) == (INNER, NOT_READY)
    host.clear(3)
    assert (child.health(3)[0], child.health(5)[0]) == (OK, NOT_READY)


def test_a_health_that_cannot_be_read_may_look_healthy(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    host.occur(3, "80E01801")
    host.error(3, IOCTL)
    assert child.health(3) == (IOCTL, 0)
    host.error(3, OCCUPIED)
    assert child.health(3) == (OCCUPIED, 4)


def test_start_without_a_driver(host: SimHost, start: MakeChild) -> None:
    host.change(lambda state: replace(state, faults=replace(state.faults, init=replace(state.faults.init, ret=INNER))))
    assert start(host).call("dcmi_init").ret == INNER


def test_a_slow_call_takes_its_time(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    rule(host, "dcmi_get_device_health", DriverRule(delay_ms=300, match=Match(card=3)))
    began = time.monotonic()
    assert child.health(3) == (OK, 0)
    assert time.monotonic() - began >= 0.3


def test_a_hung_call_takes_no_signal_and_goes_on_when_the_driver_does(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    host.hang(3)
    assert child.health(4) == (OK, 0)
    child.send({"call": "dcmi_get_device_health", "args": [3, 0, out()]})
    assert not child.answered(0.3)
    child.process.send_signal(signal.SIGTERM)
    assert not child.answered(0.3)
    assert child.process.poll() is None
    host.clear(None)
    wait_until("the signal is taken once the call is over", lambda: child.process.poll() is not None)


def test_a_hung_driver_hangs_new_processes_in_their_start(host: SimHost, start: MakeChild) -> None:
    running = start(host).init()
    host.hang(None)
    assert running.cards() == list(range(8)), "the list is in the memory of the process"
    starting = start(host)
    starting.send({"call": "dcmi_init", "args": []})
    assert not starting.answered(0.5)
    host.clear(None)
    assert starting.receive()["ret"] == OK


def test_a_hang_ends_with_the_host(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    host.hang(3)
    child.send({"call": "dcmi_get_device_health", "args": [3, 0, out()]})
    assert not child.answered(0.3)
    host.state_path.unlink()
    assert child.receive()["ret"] == INNER


def test_two_threads_inside_at_once_are_recorded(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    request = {"call": "dcmi_get_device_temperature", "args": [0, 0, out()]}
    assert child.ask({"threads": [request]}) is None
    assert not host.violations.exists()
    host.hang(0, "dcmi_get_device_temperature")
    child.send({"threads": [request, request]})
    wait_until("the second thread is recorded", host.violations.exists)
    host.clear(0)
    child.receive()
    lines = host.violations.read_text().splitlines()
    assert len(lines) == 1
    assert f"pid={child.process.pid} " in lines[0]
    assert "dcmi_get_device_temperature" in lines[0]
