"""A code that goes and comes back before its recover event has been checked: two occurrences, one open fault."""

from __future__ import annotations

from agent.detect.readings import LinkReading
from tests.detect.bench import Bench, at, good

TRIPS = "80E18008"
"""Separates its chip for good at the second time in a day."""
LINK = "81078603"


def kinds(bench: Bench) -> list[str]:
    return [f"{event.kind} {event.id}" for event in bench.detector.drain_events()]


def test_it_is_two_hits_of_a_frequency_rule() -> None:
    bench = Bench()
    bench.poll(0, good(3, TRIPS, health=2))
    bench.event(10.0, 3, TRIPS, "recover")
    bench.event(10.5, 3, TRIPS)
    bench.detector.reread(3, (TRIPS,), at(10.6))
    assert bench.faults(10.6) == {f"{TRIPS}@3": "ManuallySeparateNPU"}
    assert kinds(bench) == [f"raised {TRIPS}@3"]


def test_one_that_the_list_never_shows_again_is_over_and_no_hit() -> None:
    bench = Bench()
    bench.poll(0, good(3, TRIPS, health=2))
    bench.event(10.0, 3, TRIPS, "recover")
    bench.event(10.5, 3, TRIPS)
    assert bench.due(10.5) == [(3, "confirm")]
    bench.detector.reread(3, (), at(10.6))
    assert bench.faults(10.6) == {}
    bench.poll(25, good(3, TRIPS, health=2))
    assert bench.faults(25) == {f"{TRIPS}@3": "ManuallySeparateNPU"}, "the second time that a list has shown it"


def test_lies_about_a_listed_code_leave_it_confirmed() -> None:
    bench = Bench()
    bench.poll(0, good(3, TRIPS, health=2))
    for number in range(10):
        bench.event(1 + number / 100, 3, TRIPS, "recover")
        bench.event(1.005 + number / 100, 3, TRIPS)
        assert bench.fault(1.005 + number / 100, f"{TRIPS}@3").confirmed


def test_a_recover_event_that_could_not_be_checked_is_dropped_with_the_return() -> None:
    bench = Bench()
    bench.poll(0, good(3, TRIPS, health=2))
    bench.event(10.0, 3, TRIPS, "recover")
    bench.event(10.5, 3, TRIPS)
    bench.detector.reread(3, None, at(10.6))
    bench.detector.reread(3, None, at(11.1))
    bench.poll(15, good(3, TRIPS, health=2))
    assert bench.faults(15) == {f"{TRIPS}@3": "RestartNPU"}


def test_a_port_that_somebody_else_sees_down_never_went() -> None:
    bench = Bench()
    bench.poll(0, good(3, LINK))
    bench.detector.links([LinkReading(3, False)], at(1))
    bench.event(10.0, 3, LINK, "recover")
    bench.event(10.5, 3, LINK)
    bench.detector.reread(3, (LINK,), at(10.6))
    bench.poll(21, good(3, LINK, health=1))
    assert bench.fault(21, f"{LINK}@3").level.value == "PreSeparateNPU", "down since 0 s"


def test_a_return_that_the_list_has_denied_is_not_kept_for_the_next_recover_event() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.detector.links([LinkReading(3, False)], at(1))
    bench.event(10.0, 3, LINK)
    bench.event(10.2, 3, LINK, "recover")
    bench.event(10.4, 3, LINK)
    bench.detector.reread(3, (), at(11.3))
    (track,) = bench.detector.memory(at(11.3)).tracks
    assert (track.observed, track.recover_at, track.again_at) == (True, None, None)


def test_a_recover_event_after_the_other_modules_occur_event_is_no_new_occurrence() -> None:
    bench = Bench()
    bench.poll(0, good(3, TRIPS, health=2))
    bench.event(10.0, 3, TRIPS)
    bench.event(10.5, 3, TRIPS, "recover")
    assert bench.due(11.5) == [(3, "recover")]
    bench.detector.reread(3, (TRIPS,), at(11.5))
    assert bench.faults(11.5) == {f"{TRIPS}@3": "RestartNPU"}


def test_a_port_that_blinks_starts_the_time_of_its_duration_rule_anew_and_counts_as_a_flap() -> None:
    bench = Bench()
    bench.poll(0, good(3))
    bench.event(1, 3, LINK)
    bench.detector.reread(3, (LINK,), at(1.1))
    for mono in (10.0, 20.0, 30.0, 40.0, 50.0):
        assert bench.fault(mono, f"{LINK}@3").level.value != "PreSeparateNPU", "never down for longer than 20 s"
        bench.event(mono, 3, LINK, "recover")
        bench.event(mono + 0.5, 3, LINK)
        bench.detector.reread(3, (LINK,), at(mono + 0.6))
    assert bench.detector.view(at(51)).faults[0].level.value == "SubHealthFault"
    bench.poll(71, good(3, LINK, health=1))
    assert bench.fault(71, f"{LINK}@3").level.value == "PreSeparateNPU"
