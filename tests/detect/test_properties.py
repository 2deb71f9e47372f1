"""Invariants over any order of events, polls and failures."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.detect.memory import DetectorMemory
from agent.detect.readings import ChipReading, LinkReading
from agent.detect.view import DetectView
from shared.names import CODE_LINK_DOWN
from tests.detect.bench import Bench, at, failing, good, who

CHIPS = (0, 1)
PLAIN = ("80E18402", "80CB8009", "80E21007", "80FEED01", "A8028801")
"""Codes without a time rule; the last is the black-box form of the first."""
RULED = ("80E18008", CODE_LINK_DOWN)

Step = tuple[str, Any]


def steps(codes: tuple[str, ...], *, links: bool = True) -> st.SearchStrategy[list[Step]]:
    chip, code = st.sampled_from(CHIPS), st.sampled_from(codes)
    some = st.frozensets(code, max_size=3)
    kinds = [
        st.tuples(st.just("event"), st.tuples(chip, code, st.sampled_from(("occur", "recover", "once")))),
        st.tuples(st.just("poll"), st.fixed_dictionaries(dict.fromkeys(CHIPS, st.none() | some))),
        st.tuples(st.just("answer"), st.none() | some),
        st.tuples(st.just("wait"), st.sampled_from((0.1, 0.9, 1.0, 5.0, 61.0))),
    ]
    if links:
        kinds.append(st.tuples(st.just("link"), st.tuples(chip, st.sampled_from((True, False, None)))))
    return st.lists(st.one_of(kinds), max_size=30)


def readings(lists: dict[int, frozenset[str] | None]) -> list[ChipReading]:
    return [
        failing(phy, -8005) if codes is None else good(phy, *sorted(codes), health=2) for phy, codes in lists.items()
    ]


def play(bench: Bench, sequence: list[Step], now: float = 0.0) -> float:
    """Let it happen, a tenth of a second apart; returns the time after."""
    for kind, what in sequence:
        now += 0.1
        if kind == "event":
            bench.event(now, *what)
        elif kind == "poll":
            bench.poll(now, *readings(what))
        elif kind == "link":
            bench.detector.links([LinkReading(what[0], up=what[1])], at(now))
        elif kind == "answer":
            codes = None if what is None else tuple(sorted(what))
            for phy, _ in bench.due(now):
                bench.detector.reread(phy, codes, at(now), error=-8005 if codes is None else None)
        else:
            now += what
            bench.detector.tick(at(now))
    return now


def answer_all(bench: Bench, now: float, truth: dict[int, frozenset[str]]) -> None:
    for phy, _ in bench.due(now):
        bench.detector.reread(phy, tuple(sorted(truth[phy])), at(now), health=2)


def chips_only(view: DetectView) -> list[Any]:
    return [(fault.id, fault.level, fault.confirmed) for fault in view.faults if fault.chip != "node"]


@settings(max_examples=100, deadline=None)
@given(
    sequence=steps(PLAIN), truth=st.fixed_dictionaries({phy: st.frozensets(st.sampled_from(PLAIN)) for phy in CHIPS})
)
def test_whatever_happened_ten_seconds_of_good_polls_show_exactly_what_the_driver_lists(
    sequence: list[Step], truth: dict[int, frozenset[str]]
) -> None:
    bench = Bench()
    now = play(bench, sequence) + 0.1
    links = [LinkReading(phy, up=True) for phy in CHIPS]
    bench.detector.links(links, at(now))
    for later in (0, 5, 10):
        answer_all(bench, now + later, truth)
        bench.poll(now + later, *readings(dict(truth)))
    wanted = {f"{'80E18402' if code == 'A8028801' else code}@{phy}" for phy, codes in truth.items() for code in codes}
    open_now = {fault.id: fault for fault in bench.view(now + 10).faults if fault.code != CODE_LINK_DOWN}
    assert set(open_now) == wanted
    assert all(fault.confirmed for fault in open_now.values())


@settings(max_examples=100, deadline=None)
@given(sequence=steps(PLAIN + RULED), blind=st.lists(st.sampled_from(("error", "hung", "silent", "wait")), max_size=10))
def test_not_being_able_to_look_raises_and_clears_nothing(sequence: list[Step], blind: list[str]) -> None:
    bench = Bench()
    now = play(bench, sequence)
    bench.poll(now, *(failing(phy, -8006) for phy in CHIPS))
    bench.detector.links([LinkReading(phy, up=None, why="busy") for phy in CHIPS], at(now))
    for phy, _ in bench.due(now + 2):
        bench.detector.reread(phy, None, at(now + 2), error=-8006)
    now += 2
    before, _ = chips_only(bench.view(now)), bench.detector.drain_events()
    for kind in blind:
        now += 3600
        if kind == "silent":
            bench.poll(now, silent="no answer")
        elif kind == "wait":
            bench.detector.tick(at(now))
        else:
            bench.poll(
                now, *(ChipReading(who(phy), hung=True) if kind == "hung" else failing(phy, -8005) for phy in CHIPS)
            )
    assert chips_only(bench.view(now)) == before
    assert [event for event in bench.detector.drain_events() if not event.id.endswith("@node")] == []


@settings(max_examples=100, deadline=None)
@given(
    first=steps((*PLAIN, "80E18008"), links=False), then=steps((*PLAIN, "80E18008"), links=False), reboot=st.booleans()
)
def test_a_restart_at_any_point_changes_no_fault(first: list[Step], then: list[Step], reboot: bool) -> None:
    whole, interrupted = Bench(), Bench()
    now = play(whole, first)
    play(interrupted, first)
    saved = msgspec.json.encode(interrupted.detector.memory(at(now)))
    memory = msgspec.json.decode(saved, type=DetectorMemory)
    assert msgspec.json.encode(memory) == saved
    restarted = Bench(memory.rebased(at(now), same_boot=not reboot))
    assert chips_only(restarted.view(now)) == chips_only(whole.view(now))
    whole.detector.drain_events()
    interrupted.detector.drain_events()
    # The first good poll is what an agent that starts makes; from there on the two see the same things.
    listed = {phy: frozenset(("80E18402",)) for phy in CHIPS}
    for bench in (whole, restarted):
        bench.poll(now, *readings(dict(listed)))
        play(bench, then, now)
    end = play(Bench(), then, now)
    assert chips_only(restarted.view(end)) == chips_only(whole.view(end))
    assert restarted.detector.drain_events() == whole.detector.drain_events()


@settings(max_examples=60, deadline=None)
@given(sequence=steps(PLAIN + RULED))
def test_events_tell_every_fault_opened_and_closed_in_order(sequence: list[Step]) -> None:
    bench = Bench()
    now = play(bench, sequence)
    is_open: set[str] = set()
    view = bench.view(now)
    for event in bench.detector.drain_events():
        assert (event.id in is_open) is (event.kind == "cleared")
        is_open.symmetric_difference_update({event.id})
    assert is_open == {fault.id for fault in view.faults}


@settings(max_examples=60, deadline=None)
@given(sequence=steps(PLAIN + RULED))
def test_what_it_wakes_for_comes_to_an_end(sequence: list[Step]) -> None:
    """Each wake-up does its work: nobody is woken for the same moment for ever."""
    bench = Bench()
    now = play(bench, sequence)
    for _ in range(40):
        wake = bench.detector.wake_at
        if wake is None:
            return
        now = max(now, wake)
        bench.detector.tick(at(now))
        for phy, _reason in bench.due(now):
            bench.detector.reread(phy, None, at(now), error=-8005)
        later = bench.detector.wake_at
        assert later is None or later > now
