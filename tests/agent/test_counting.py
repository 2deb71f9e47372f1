"""Counters that only rise: what counts as new, for how long, and over restarts and reboots."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.counting import PARTS, Kept, Rising
from shared.model import Instant


def rising(*, limit: int = 10, began: float = 0.0, lasting: bool = False) -> Rising:
    return Rising(window_s=100, limit=limit, began=began, lasting=lasting)


def at(mono: float, wall: float | None = None) -> Instant:
    return Instant(mono, 1e9 + mono if wall is None else wall)


def over_restart(before: Rising, when: Instant, then: Instant, *, same_boot: bool, lasting: bool = False) -> Rising:
    after = rising(began=then.mono, lasting=lasting)
    kept = msgspec.json.decode(msgspec.json.encode(before.memory(when)), type=Kept)
    after.recall(kept, then, same_boot=same_boot)
    return after


def test_only_what_is_new_counts_and_only_within_the_window() -> None:
    one = rising()
    one.see("a", 5000, 0)
    assert one.judge("a", 0) is None, "not a whole window has been watched"
    one.see("a", 5009, 10)
    assert one.judge("a", 100) is False
    one.see("a", 5010, 20)
    assert one.judge("a", 20) is True
    assert one.judge("b", 20) is None
    assert one.judge("a", 109.9) is True
    assert one.judge("a", 110.1) is False, "the nine of second 10 have left the window"


def test_a_counter_that_begins_anew_has_no_news() -> None:
    one = rising()
    one.see("a", 5000, 0)
    one.see("a", 40, 10)
    assert one.within_window("a", 10) == 0
    one.see("a", 52, 20)
    assert one.judge("a", 20) is True


def test_a_restart_misses_nothing_and_waits_for_no_window() -> None:
    before = rising()
    before.see("a", 100, 0)
    before.see("a", 104, 50)
    after = over_restart(before, at(60), at(90), same_boot=True)
    assert after.judge("a", 101) is False, "a whole window has been watched by the two"
    after.see("a", 106, 102)
    assert after.within_window("a", 102) == 6
    after.see("a", 110, 105)
    assert after.judge("a", 105) is True


@pytest.mark.parametrize(("lasting", "new"), [(False, 4), (True, 7)])
def test_after_a_reboot_counters_of_the_kernel_begin_anew_and_those_of_the_chip_go_on(lasting: bool, new: int) -> None:
    before = rising(lasting=lasting)
    before.see("a", 100, 1000)
    before.see("a", 104, 1040)
    after = over_restart(before, at(1050), at(20, 1e9 + 1080), same_boot=False, lasting=lasting)
    after.see("a", 107, 20)
    assert after.within_window("a", 20) == new
    assert after.within_window("a", 85) == new - 4, "40 s before the reboot and 60 s after it are 100"


def test_a_wall_clock_that_went_backwards_is_no_time_at_all() -> None:
    before = rising()
    before.see("a", 0, 1000)
    before.see("a", 4, 1050)
    after = over_restart(before, at(1050), at(20, 5.0), same_boot=False)
    assert after.within_window("a", 119) == 4
    assert after.within_window("a", 121) == 0


@given(st.lists(st.tuples(st.floats(0.01, 30), st.integers(0, 5)), max_size=400))
def test_memory_is_bounded_and_never_more_is_counted_than_has_risen(steps: list[tuple[float, int]]) -> None:
    one = rising()
    mono, total = 0.0, 0
    one.see("a", 0, 0)
    seen = [(0.0, 0)]
    for pause, new in steps:
        mono, total = mono + pause, total + new
        one.see("a", total, mono)
        seen.append((mono, new))
        counted = one.within_window("a", mono)
        assert counted <= sum(n for when, n in seen if when > mono - 100)
        assert counted >= sum(n for when, n in seen if when > mono - 100 + 100 / PARTS)
    assert sum(len(rises) for rises in one.memory(at(mono)).rises.values()) <= PARTS + 1
