"""Frequency rule, a pure state machine for one code on one chip: too many occurrences in a sliding window.

    count --(hits within the window >= times)--> tripped --(over for longer than the release window)--> count

Source: MindCluster `faultCustomization.json`, key FaultFrequency. Counts compare with >=, times with a strict >.
All times are seconds on the monotonic clock.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from shared.model import FaultLevel


class FrequencyRule(msgspec.Struct, frozen=True):
    """`times` hits within `window_s` give `level`, until `release_s` after the last end (None: until an operator)."""

    window_s: float
    times: int
    level: FaultLevel
    release_s: float | None = None


class FrequencyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """hits: when the occurrences inside the window began. tripped: the level in force, None = not tripped.
    ended: when the last occurrence ended, None while it goes on or before there was one."""

    hits: tuple[float, ...] = ()
    tripped: FaultLevel | None = None
    ended: float | None = None


def hit(state: FrequencyState, rule: FrequencyRule, at: float) -> FrequencyState:
    """One more occurrence, begun at `at`. While tripped it only postpones the release and starts the next count."""
    hits = (*(t for t in state.hits if at - t <= rule.window_s), at)
    if len(hits) >= rule.times:
        return FrequencyState(tripped=max(rule.level, state.tripped or rule.level))
    return replace(state, hits=hits, ended=None)


def ended(state: FrequencyState, at: float) -> FrequencyState:
    """The occurrence is over since `at`: the release window runs from here."""
    return replace(state, ended=at)


def advance(state: FrequencyState, rule: FrequencyRule | None, now: float) -> FrequencyState:
    """What time alone changes: hits leave the window, a tripped rule is released."""
    if rule is None:
        return state
    if state.hits and now - state.hits[0] > rule.window_s:
        state = replace(state, hits=tuple(t for t in state.hits if now - t <= rule.window_s))
    if state.tripped and rule.release_s is not None and state.ended is not None and now - state.ended > rule.release_s:
        state = replace(state, tripped=None)
    return state


def reconfigured(state: FrequencyState, rule: FrequencyRule | None) -> FrequencyState:
    """The rule has changed: what it had tripped follows it, or goes with it. A manual separation does neither: it was
    promised to wait for its release window or an operator."""
    if state.tripped in (None, FaultLevel.MANUALLY_SEPARATE_NPU):
        return state
    return replace(state, tripped=rule.level if rule else None)


def next_change(state: FrequencyState, rule: FrequencyRule | None) -> float | None:
    """The moment after which `advance` changes something, None = never by time alone."""
    if rule is None:
        return None
    times = [state.hits[0] + rule.window_s] if state.hits else []
    if state.tripped and rule.release_s is not None and state.ended is not None:
        times.append(state.ended + rule.release_s)
    return min(times, default=None)
