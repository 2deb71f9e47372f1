"""The frequency rule: when it trips and when it lets go."""

from __future__ import annotations

import pytest

from agent.detect.frequency import FrequencyRule, FrequencyState, advance, ended, hit, next_change, reconfigured
from shared.model import FaultLevel

RULE = FrequencyRule(window_s=600, times=3, level=FaultLevel.SEPARATE_NPU, release_s=100)
FOR_GOOD = FrequencyRule(window_s=600, times=1, level=FaultLevel.MANUALLY_SEPARATE_NPU)


def after(*hits: float, rule: FrequencyRule = RULE) -> FrequencyState:
    state = FrequencyState()
    for at in hits:
        state = ended(hit(state, rule, at), at + 1)
    return state


@pytest.mark.parametrize(
    ("hits", "trips"),
    [
        pytest.param((0, 1), False, id="one below the count"),
        pytest.param((0, 1, 2), True, id="the count itself"),
        pytest.param((0, 1, 600), True, id="first exactly one window ago still counts"),
        pytest.param((0, 1, 600.5), False, id="first just out of the window"),
        pytest.param((0, 500, 700, 1090), True, id="three of four within the window"),
        pytest.param((0, 301, 602, 903), False, id="never three in any window"),
    ],
)
def test_trips_at_the_count_within_a_sliding_window(hits: tuple[float, ...], trips: bool) -> None:
    assert (after(*hits).tripped is not None) is trips


@pytest.mark.parametrize(
    ("now", "tripped"),
    [
        pytest.param(103, True, id="exactly the release window after the end"),
        pytest.param(103.5, False, id="over it"),
    ],
)
def test_release_counts_from_the_end_of_the_last_occurrence(now: float, tripped: bool) -> None:
    assert (advance(after(0, 1, 2), RULE, now).tripped is not None) is tripped


def test_is_not_released_while_an_occurrence_goes_on() -> None:
    assert advance(hit(after(0, 1, 2), RULE, 50), RULE, 10_000).tripped is FaultLevel.SEPARATE_NPU


def test_without_a_release_window_time_releases_nothing() -> None:
    state = after(0, rule=FOR_GOOD)
    assert advance(state, FOR_GOOD, 1e9).tripped is FaultLevel.MANUALLY_SEPARATE_NPU


def test_the_count_starts_anew_once_tripped() -> None:
    assert after(0, 1, 2).hits == ()


def test_a_lower_rule_never_weakens_a_manual_separation() -> None:
    low = FrequencyRule(window_s=600, times=1, level=FaultLevel.SUB_HEALTH, release_s=100)
    state = reconfigured(after(0, rule=FOR_GOOD), low)
    assert hit(state, low, 50).tripped is FaultLevel.MANUALLY_SEPARATE_NPU


@pytest.mark.parametrize(
    ("state", "rule", "expected"),
    [
        pytest.param(after(0, 1, 2), FOR_GOOD, FaultLevel.MANUALLY_SEPARATE_NPU, id="follows the rule's new level"),
        pytest.param(after(0, 1, 2), None, None, id="goes with its rule"),
        pytest.param(after(0, rule=FOR_GOOD), RULE, FaultLevel.MANUALLY_SEPARATE_NPU, id="manual: not lowered"),
        pytest.param(after(0, rule=FOR_GOOD), None, FaultLevel.MANUALLY_SEPARATE_NPU, id="manual: outlives its rule"),
    ],
)
def test_new_configuration(state: FrequencyState, rule: FrequencyRule | None, expected: FaultLevel | None) -> None:
    assert reconfigured(state, rule).tripped is expected


def test_says_when_to_look_again_and_changes_nothing_before() -> None:
    state = after(0, 1)
    change = next_change(state, RULE)
    assert change == 600
    assert advance(state, RULE, change) == state
    assert advance(state, RULE, change + 0.001).hits == (1,)
