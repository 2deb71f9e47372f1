"""When a look counts: within a window, or several times in a row; and "not to be told yet" after a start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.evidence import Recent, Streak


def test_happenings_count_within_the_window_and_nothing_is_said_before_a_whole_window_was_seen() -> None:
    recent = Recent(window_s=60, limit=2, began=100)
    assert recent.judge("eth0", 110) is None
    recent.note("eth0", 110)
    assert recent.judge("eth0", 111) is None
    recent.note("eth0", 120)
    assert recent.judge("eth0", 121) is True
    assert recent.judge("eth1", 121) is None, "each key for itself"
    assert recent.judge("eth0", 170) is False, "the first of them is out of the window, and the window has been seen"


def test_many_at_once_are_as_good_as_the_limit() -> None:
    recent = Recent(window_s=60, limit=3, began=0)
    recent.note("k", 1, times=10_000_000)
    assert recent.judge("k", 2) is True


@given(st.lists(st.floats(0, 1000), max_size=30), st.floats(0, 1100), st.integers(1, 4))
def test_a_finding_is_exactly_enough_happenings_in_the_window(times: list[float], at: float, limit: int) -> None:
    recent = Recent(window_s=100, limit=limit, began=-1000)
    past = sorted(time for time in times if time <= at)
    for time in past:
        recent.note("k", time)
    assert recent.judge("k", at) is (sum(time > at - 100 for time in past) >= limit)


@pytest.mark.parametrize(
    ("looks", "judged"),
    [
        pytest.param([True, True, True], [None, True, True], id="it stays"),
        pytest.param([True, False, True], [None, False, None], id="one good look ends it"),
        pytest.param([False], [False], id="well"),
    ],
)
def test_a_condition_counts_from_the_second_look_on(looks: list[bool], judged: list[bool | None]) -> None:
    streak = Streak(2)
    assert [streak.judge("k", bad) for bad in looks] == judged
