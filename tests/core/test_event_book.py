"""Kubernetes Events: one object and reason count in one Event, and nobody floods the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import event_book
from reconciler.core.calls import Call, Reply
from reconciler.core.event_book import BACKOFF_S, BURST, MAX_SERIES, OBJECT_BURST, OBJECT_EVERY_S, WINDOW_S, EventBook
from reconciler.core.events import event
from shared.model import Instant
from tests.core.worlds import T0, after

OK, GONE, BUSY, FORBIDDEN, TAKEN = Reply(201), Reply(404), Reply(503), Reply(403), Reply(409)


def an_event(name: str = "job", reason: str = "RecoveryStarted", message: str = "m", at: Instant = T0) -> Call:
    return event("AscendJob", "ml", name, f"uid-{name}", reason, message, "Warning", at)


class Api:
    """Event objects by path, as the API server keeps them; `reply` is given once instead of what it would say."""

    def __init__(self, book: EventBook) -> None:
        self.book = book
        self.events: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []

    def write(self, at: Instant, reply: Reply | None = None) -> str | None:
        """One write, if one is due: what the book makes of its reply."""
        due = self.book.next(at)
        if due is None:
            return None
        key, call = due
        self.calls.append(call)
        if reply is None:
            reply = self.carry_out(call)
        return self.book.settle(key, call, reply, at)

    def carry_out(self, call: Call) -> Reply:
        if call.method == "POST":
            path = f"{call.path}/{call.body['metadata']['name']}"
            if path in self.events:
                return TAKEN
            self.events[path] = dict(call.body)
            return OK
        if call.path not in self.events:
            return GONE
        self.events[call.path] |= call.body
        return OK

    def all(self, at: Instant) -> int:
        written = 0
        while self.write(at) is not None:
            written += 1
        return written

    @property
    def counts(self) -> list[int]:
        return [event["count"] for event in self.events.values()]


@pytest.fixture
def api() -> Api:
    return Api(EventBook(T0))


def test_the_same_again_raises_the_count_of_the_one_event(api: Api) -> None:
    for second in range(3):
        api.book.say(an_event(message=f"the {second}th", at=after(second)), after(second))
        assert api.write(after(second)) == "written"
    assert [call.method for call in api.calls] == ["POST", "PATCH", "PATCH"]
    (stored,) = api.events.values()
    assert (stored["count"], stored["message"]) == (3, "the 2th")
    assert (stored["firstTimestamp"], stored["lastTimestamp"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:02Z")


@pytest.mark.parametrize(
    "other",
    [
        an_event(name="other"),
        an_event(reason="Recovered"),
        event("AscendJob", "ml", "job", "uid-job", "RecoveryStarted", "m", "Normal", T0),
        event("AscendJob", "ml", "job", "uid-of-the-next", "RecoveryStarted", "m", "Warning", T0),
        event("AscendJob", "elsewhere", "job", "uid-job", "RecoveryStarted", "m", "Warning", T0),
    ],
    ids=["another object", "another reason", "another type", "a new object of the name", "another namespace"],
)
def test_anything_else_is_an_event_of_its_own(api: Api, other: Call) -> None:
    api.book.say(an_event(), T0)
    api.book.say(other, T0)
    assert api.all(T0) == 2
    assert api.counts == [1, 1]


def test_after_a_quiet_window_it_is_a_new_event(api: Api) -> None:
    api.book.say(an_event(), T0)
    api.all(T0)
    later = after(WINDOW_S + 1)
    api.book.say(an_event(at=later), later)
    api.all(later)
    assert api.counts == [1, 1]


def test_what_is_said_while_the_api_server_is_slow_is_one_write(api: Api) -> None:
    for _ in range(50):
        api.book.say(an_event(), T0)
    assert api.all(T0) == 1
    assert api.counts == [50]


def test_what_is_said_during_a_write_is_written_next(api: Api) -> None:
    api.book.say(an_event(), T0)
    due = api.book.next(T0)
    assert due is not None
    api.book.say(an_event(), T0)
    assert api.book.settle(*due, OK, T0) == "written"
    following = api.book.next(T0)
    assert following is not None
    assert (following[1].method, following[1].body["count"]) == ("PATCH", 2)


def test_one_object_cannot_flood_and_its_count_is_told_later(api: Api) -> None:
    for number in range(3 * OBJECT_BURST):
        api.book.say(an_event(message=str(number)), T0)
        api.write(T0)
    assert len(api.calls) == OBJECT_BURST
    assert api.book.wait_s(T0) == pytest.approx(OBJECT_EVERY_S)
    assert api.write(after(OBJECT_EVERY_S)) == "written"
    assert api.counts == [3 * OBJECT_BURST]


def test_a_flooding_object_does_not_hold_up_another(api: Api) -> None:
    for number in range(OBJECT_BURST + 1):
        api.book.say(an_event(reason=f"Reason{number}"), T0)
    api.book.say(an_event(name="quiet"), T0)
    api.all(T0)
    assert any("quiet" in path for path in api.events)


def test_all_together_are_limited_and_none_is_lost(api: Api) -> None:
    for number in range(2 * BURST):
        api.book.say(an_event(name=f"job-{number}"), T0)
    assert api.all(T0) == BURST
    wait_s = api.book.wait_s(T0)
    assert wait_s is not None
    assert 0 < wait_s < 1
    assert api.all(after(3600)) == BURST


def test_an_event_that_has_expired_is_written_anew(api: Api) -> None:
    api.book.say(an_event(), T0)
    api.all(T0)
    api.events.clear()
    api.book.say(an_event(), after(1))
    assert api.write(after(1)) == "again"
    assert api.write(after(1)) == "written"
    assert api.counts == [2]


def test_an_answer_that_got_lost_makes_no_second_event(api: Api) -> None:
    api.book.say(an_event(), T0)
    due = api.book.next(T0)
    assert due is not None
    key, call = due
    assert api.carry_out(call).ok
    assert api.book.settle(key, call, Reply(0), T0) == "again"
    assert api.write(after(BACKOFF_S[0])) == "written"
    assert api.counts == [1]
    assert api.book.wait_s(after(10)) is None


def test_trouble_is_waited_out_longer_and_longer(api: Api) -> None:
    api.book.say(an_event(), T0)
    waits, at = [], 0.0
    for _ in range(8):
        assert api.write(after(at), BUSY) == "again"
        wait_s = api.book.wait_s(after(at))
        assert wait_s is not None
        waits.append(wait_s)
        assert api.book.next(after(at + wait_s / 2)) is None
        at += wait_s + 60
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == BACKOFF_S


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_what_is_refused_is_not_tried_again(api: Api, status: int) -> None:
    api.book.say(an_event(), T0)
    assert api.write(T0, Reply(status)) == "refused"
    assert api.book.wait_s(T0) is None


def test_kinds_of_events_are_bounded_and_old_ones_make_room(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SERIES >= 1000
    monkeypatch.setattr(event_book, "MAX_SERIES", 3)
    taken = [api.book.say(an_event(name=f"job-{number}"), T0) for number in range(4)]
    assert taken == [True, True, True, False]
    api.all(T0)
    assert api.book.say(an_event(name="job-9"), after(WINDOW_S + 1))


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["X", "Y"]), st.floats(0, 300), st.booleans()),
        max_size=60,
    )
)
def test_every_event_said_is_counted_once(said: list[tuple[str, str, float, bool]]) -> None:
    book, at = EventBook(T0), 0.0
    api = Api(book)
    for name, reason, gap_s, busy in said:
        at += gap_s
        assert book.say(an_event(name, reason), after(at))
        api.write(after(at), BUSY if busy else None)
    while (wait_s := book.wait_s(after(at))) is not None:
        at += wait_s + 0.001
        api.write(after(at))
    assert sum(api.counts) == len(said)
