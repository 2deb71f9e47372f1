"""The duration rule: two states, strict comparisons, and flaps that do not add up."""

from __future__ import annotations

import pytest

from agent.detect.duration import (
    DurationRule,
    DurationState,
    advance,
    next_change,
    occurred,
    reconfigured,
    recovered,
    without_old_flaps,
)
from shared.model import FaultLevel

RULE = DurationRule(fault_timeout_s=20, recover_timeout_s=60, level=FaultLevel.PRE_SEPARATE_NPU)
Episode = tuple[float, float]


def after(*episodes: Episode) -> DurationState:
    state = DurationState()
    for down, up in episodes:
        state = recovered(occurred(advance(state, RULE, down), down), RULE, down_until=up, up_since=up, keep_flaps=5)
    return state


@pytest.mark.parametrize(
    ("episodes", "now", "timed_out"),
    [
        pytest.param([(0, 20)], 21, False, id="exactly FaultTimeout"),
        pytest.param([(0, 20.5)], 21, True, id="over FaultTimeout"),
        pytest.param([(0, 20), (22, 42)], 43, False, id="two of exactly FaultTimeout do not add up"),
        pytest.param([(0, 30)], 90, True, id="gone for exactly RecoverTimeout"),
        pytest.param([(0, 30)], 90.5, False, id="gone for longer"),
        pytest.param([(0, 30), (60, 61)], 100, True, id="back within RecoverTimeout: the recovery starts again"),
        pytest.param([(0, 30), (60, 61)], 121.5, False, id="and ends RecoverTimeout after the last end"),
        pytest.param([(0, 30), (200, 205)], 206, False, id="a new short one after it was over is short"),
    ],
)
def test_timed_out(episodes: list[Episode], now: float, timed_out: bool) -> None:
    assert (advance(after(*episodes), RULE, now).timed_out_at is not None) is timed_out


def test_times_out_while_it_lasts_at_the_moment_of_the_time_out() -> None:
    state = occurred(DurationState(), 5)
    assert next_change(state, RULE) == 25
    assert advance(state, RULE, 25) == state
    assert advance(state, RULE, 400).timed_out_at == 25


def test_time_in_which_nobody_could_look_counts_for_neither_side() -> None:
    short = recovered(occurred(DurationState(), 0), RULE, down_until=15, up_since=500, keep_flaps=5)
    assert short.timed_out_at is None
    long = recovered(occurred(DurationState(), 0), RULE, down_until=25, up_since=500, keep_flaps=5)
    assert advance(long, RULE, 560).timed_out_at == 20
    assert advance(long, RULE, 561).timed_out_at is None


def test_only_short_occurrences_are_flaps_and_old_ones_are_forgotten() -> None:
    state = after((0, 5), (10, 15), (100, 150))
    assert state.flaps == (5, 15)
    assert without_old_flaps(state, 25, window_s=15).flaps == (15,)


def test_the_newest_flaps_are_kept() -> None:
    assert after(*((n, n + 1) for n in range(0, 20, 2))).flaps == (11, 13, 15, 17, 19)


def test_a_rule_that_is_gone_holds_nothing_and_a_new_one_counts_from_the_beginning() -> None:
    state = reconfigured(advance(occurred(DurationState(), 0), RULE, 30), None)
    assert state.timed_out_at is None
    assert advance(state, RULE, 31).timed_out_at == 20
