"""A chip whose health is bad and whose code list cannot be read, as with more codes than the driver lists."""

from __future__ import annotations

import pytest

from agent.detect.readings import ChipReading
from tests.detect.bench import Bench, good, who

UNREAD = "NW-CODES-UNREAD@3"
TOO_MANY = -8005


def alarm(health: int | None, error: int = TOO_MANY) -> ChipReading:
    return ChipReading(who(3), health=health, error=error, why=f"code list answered {error}")


@pytest.mark.parametrize(
    ("health", "level"), [(1, "NotHandleFault"), (2, "PreSeparateNPU"), (3, "PreSeparateNPU")], ids="health {}".format
)
def test_it_is_known_to_be_ill_at_the_second_poll_and_unknown_of_what(health: int, level: str) -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.poll(5, alarm(health))
    assert bench.faults(5) == {}
    bench.poll(10, alarm(health))
    assert bench.faults(10) == {UNREAD: level}
    fault = bench.fault(10, UNREAD)
    assert fault.confirmed
    assert fault.evidence["health"] == str(health)
    assert "-8005" in fault.evidence["why"]
    assert [unknown.chip for unknown in bench.view(10).unknown] == [3]


def test_codes_from_before_stay_and_events_tell_of_more() -> None:
    bench = Bench()
    bench.poll(0, good(3, "80E18402", health=3))
    bench.poll(5, alarm(3))
    bench.event(6, 3, "80E18401")
    bench.poll(10, alarm(3))
    assert set(bench.faults(10)) == {"80E18402@3", "80E18401@3", UNREAD}


def test_it_ends_with_a_list_that_can_be_read_or_a_health_that_is_good() -> None:
    for end in (good(3, "80E18402", health=3), alarm(0)):
        bench = Bench()
        for mono in (0, 5):
            bench.poll(mono, alarm(2))
        assert UNREAD in bench.faults(5)
        bench.poll(10, end)
        assert UNREAD not in bench.faults(10)


@pytest.mark.parametrize("reading", [alarm(None), ChipReading(who(3), hung=True)], ids=["no health", "hangs"])
def test_a_chip_of_which_nothing_is_known_neither_raises_nor_clears_it(reading: ChipReading) -> None:
    bench = Bench()
    for mono in (0, 5, 10):
        bench.poll(mono, reading, good(4))
    assert UNREAD not in bench.faults(10)
    for mono in (15, 20):
        bench.poll(mono, alarm(2), good(4))
    bench.poll(25, reading, good(4))
    assert UNREAD in bench.faults(25)


def test_a_single_failed_call_beside_a_bad_health_is_none() -> None:
    bench = Bench()
    for mono in range(0, 60, 10):
        bench.poll(mono, alarm(2))
        bench.poll(mono + 5, good(3, "80E21007", health=2))
        assert UNREAD not in bench.faults(mono + 5)
