"""Fault events: the subscription and the polled queue, with the traps of the real ones."""

import struct
import time
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from console.lab.host import SimHost
from console.lab.host.state import HostState
from tests.lab_host.child import Child, out
from tests.lab_host.conftest import MakeChild, MakeHost
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

OK, PARAMETER, NOT_PERMITTED, TIMEOUT, OCCUPIED, NOT_SUPPORTED = 0, -8001, -8002, -8006, -8020, -8255
ALL: dict[str, Any] = {"filter": {}}
HANDLER = {"handler": True}
RECOVERED, OCCURRED, ONE_OFF = 0, 1, 2


@dataclass(frozen=True)
class Event:
    code: str
    logic: int
    node_type: int
    severity: int
    assertion: int
    serial: int
    raised_ms: int
    name: str
    node_type_ex: int


def parse(raw: bytes) -> Event:
    kind, code, logic, node_type, severity, assertion, serial, _, raised = struct.unpack_from("<i4xIHB3xBBii4xQ", raw)
    assert kind == 0
    name = raw[40:296].split(b"\0")[0].decode()
    return Event(
        f"{code:08X}", logic, node_type, severity, assertion, serial, raised, name, *struct.unpack_from("<H", raw, 330)
    )


def subscribe(child: Child, filter_: dict[str, Any] = ALL, card: int = -1, chip: int = -1) -> int:
    return child.call("dcmi_subscribe_fault_event", card, chip, filter_, HANDLER).ret


def received(child: Child, count: int) -> list[Event]:
    raws = wait_until(f"{count} events", lambda: len(seen := child.ask({"events": True})) >= count and seen)
    assert isinstance(raws, list)
    return [parse(bytes.fromhex(one["raw"])) for one in raws]


def test_occurrence_recovery_and_notice(host: SimHost, start: MakeChild) -> None:
    host.occur(1, "80E0020B")
    child = start(host).init()
    assert subscribe(child) == OK
    host.occur(3, "80E01801")
    host.recover(3, "80E01801")
    host.once(7, "8C084E00", severity=2)
    first, second, third = received(child, 3)
    assert (first.code, first.logic, first.assertion, first.severity) == ("80E01801", 3, OCCURRED, 3)
    assert (second.code, second.assertion) == ("80E01801", RECOVERED)
    assert second.raised_ms == first.raised_ms, "a recovery carries the time of the occurrence"
    assert abs(first.raised_ms - time.time() * 1000) < 60_000
    assert (third.code, third.logic, third.assertion) == ("8C084E00", 7, ONE_OFF)
    assert second.serial == first.serial + 1
    assert first.node_type == first.node_type_ex == 0x70
    assert first.name.startswith("deviceid=3, node type=0x70")


def test_what_was_active_before_is_not_replayed(host: SimHost, start: MakeChild) -> None:
    host.occur(1, "80E0020B")
    child = start(host).init()
    assert subscribe(child) == OK
    host.occur(2, "80E01801")
    assert [event.logic for event in received(child, 1)] == [2]


def test_the_handler_runs_on_a_thread_of_the_library_with_one_buffer(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert subscribe(child) == OK
    host.occur(3, "80E01801")
    host.occur(4, "80E01801")
    received(child, 2)
    seen = child.ask({"events": True})
    assert {one["thread"] for one in seen} == {"fault_event_sub"}
    assert len({one["at"] for one in seen}) == 1


def test_one_subscription_a_process(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert child.call("dcmi_subscribe_fault_event", -1, -1, ALL, {"handler": False}).ret == PARAMETER
    assert subscribe(child, card=9, chip=0) == PARAMETER
    assert subscribe(child, card=0, chip=1) == NOT_SUPPORTED, "the MCU has none"
    assert subscribe(child) == OK
    assert subscribe(child) == OCCUPIED
    assert subscribe(start(host).init()) == OK, "another process has its own"


@pytest.mark.parametrize(
    ("filter_", "codes"),
    [
        ({"flag": 2, "severity": 2}, ["80E01801", "80E18402"]),
        ({"flag": 1, "event_id": 0x80E18402}, ["80E18402"]),
        ({"flag": 4, "node_type": 0x70}, ["80E01801", "80E18402", "80E00209"]),
        ({}, ["81078603", "80E01801", "80E18402", "80E00209"]),
    ],
)
def test_filters(host: SimHost, start: MakeChild, filter_: dict[str, int], codes: list[str]) -> None:
    child = start(host).init()
    assert subscribe(child, {"filter": filter_}) == OK
    host.occur(0, "81078603", severity=1)
    host.occur(0, "80E01801", severity=3)
    host.occur(0, "80E18402", severity=2)
    host.occur(0, "80E00209", severity=1)
    assert [event.code for event in received(child, len(codes))] == codes


def test_a_subscription_to_one_chip(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert subscribe(child, card=3, chip=0) == OK
    host.occur(2, "80E01801")
    host.occur(3, "80E01801")
    assert [event.logic for event in received(child, 1)] == [3]


def test_a_lost_event_is_in_the_code_list_only(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert subscribe(child) == OK
    host.occur(3, "80E01801", event=False)
    host.occur(4, "80E01801")
    assert [event.logic for event in received(child, 1)] == [4]
    assert child.codes(3) == (OK, ["80E01801"])


def test_logic_ids_are_those_the_process_started_with(host: SimHost, start: MakeChild) -> None:
    before = start(host).init()
    host.drop(2)
    after = start(host).init()
    assert (subscribe(before), subscribe(after)) == (OK, OK)
    host.occur(2, "40F84E00")
    host.occur(7, "80E01801")
    assert [event.logic for event in received(before, 2)] == [2, 7]
    assert [event.logic for event in received(after, 1)] == [6], "chip 2 is unknown there, 7 has moved up"


def test_where_events_are_not_supported_the_process_is_spoiled(host: SimHost, start: MakeChild) -> None:
    host.events(False)
    child = start(host).init()
    assert subscribe(child) == NOT_SUPPORTED
    host.events(True)
    assert subscribe(child) == OCCUPIED, "only a new process can subscribe"
    assert subscribe(start(host).init()) == OK


def test_a_running_subscription_can_end_without_a_word(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert subscribe(child) == OK
    wait_until("the thread has its name", lambda: "fault_event_sub" in child.ask({"names": True}))
    host.events(False)
    wait_until("the thread is gone", lambda: "fault_event_sub" not in child.ask({"names": True}))
    host.events(True)
    host.occur(3, "80E01801")
    assert child.ask({"events": True}) == []
    assert subscribe(child) == OK, "and can be taken anew"
    host.occur(4, "80E01801")
    assert [event.logic for event in received(child, 1)] == [4]


def test_a_container_must_be_root(host: SimHost, start: MakeChild) -> None:
    def contain(state: HostState) -> HostState:
        return replace(state, host=replace(state.host, container=True, root=False))

    host.change(contain)
    child = start(host).init()
    assert subscribe(child) == NOT_PERMITTED
    assert child.call("dcmi_get_fault_event", 0, 0, 0, ALL, out(360)).ret == NOT_PERMITTED


def test_the_950_subscribes_by_its_own_call(make_host: MakeHost, start: MakeChild) -> None:
    host = make_host("950", 2)
    child = start(host)
    assert child.call("dcmiv2_init").ret == OK
    assert child.call("dcmiv2_subscribe_fault_event", -1, ALL, HANDLER).ret == OK
    host.occur(1, "81AF8000", severity=2)
    (event,) = received(child, 1)
    assert (event.logic, event.severity, event.node_type, event.node_type_ex) == (1, 2, 215, 215)


def poll(child: Child, card: int, timeout_ms: int = 0) -> tuple[int, Event | None]:
    result = child.call("dcmi_get_fault_event", card, 0, timeout_ms, ALL, out(360))
    assert len(result.outs[0]) == 360
    if result.ret != OK:
        assert result.outs[0] in (bytes(360), b"\xa5" * 360)
        return result.ret, None
    return result.ret, parse(result.outs[0])


def test_an_empty_queue_times_out(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    began = time.monotonic()
    assert poll(child, 0, 100) == (TIMEOUT, None)
    assert time.monotonic() - began >= 0.1
    assert child.call("dcmi_get_fault_event", -1, -1, 0, ALL, out(360)).ret == PARAMETER
    assert child.call("dcmi_get_fault_event", 0, 0, 30001, ALL, out(360)).ret == PARAMETER


def test_polling_chip_after_chip_loses_events(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    poll(child, 0)
    host.occur(0, "80E01801")
    host.occur(1, "80E01801")
    ret, event = poll(child, 0)
    assert (ret, event and event.logic) == (OK, 0)
    assert poll(child, 1) == (TIMEOUT, None), "it came while the queue was for chip 0"
