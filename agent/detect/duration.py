"""Duration rule, a pure state machine for one code on one chip: too long there, and long enough gone.

    quiet --(there for longer than FaultTimeout)--> timed out --(gone for longer than RecoverTimeout)--> quiet

Times below FaultTimeout never add up; those short occurrences are kept as flaps, for the flap counter. A code that
returns within RecoverTimeout stays timed out, and the recovery clock starts at its next end.
Source: MindCluster `faultCustomization.json`, key FaultDuration. All comparisons of times are a strict >.
All times are seconds on the monotonic clock.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from shared.model import FaultLevel


class DurationRule(msgspec.Struct, frozen=True):
    """There for longer than `fault_timeout_s` gives `level` until gone for longer than `recover_timeout_s`."""

    fault_timeout_s: float
    recover_timeout_s: float
    level: FaultLevel


class DurationState(msgspec.Struct, frozen=True, omit_defaults=True):
    """down_since: when the present occurrence began, None = the code is not there. up_since: when the last one ended.
    timed_out_at: when FaultTimeout was reached, None = not timed out. flaps: ends of the latest short occurrences."""

    down_since: float | None = None
    up_since: float | None = None
    timed_out_at: float | None = None
    flaps: tuple[float, ...] = ()


def occurred(state: DurationState, at: float) -> DurationState:
    return replace(state, down_since=at, up_since=None)


def recovered(
    state: DurationState, rule: DurationRule | None, *, down_until: float, up_since: float, keep_flaps: int
) -> DurationState:
    """The code was there until `down_until` and is gone since `up_since`, which is later when nobody could look in
    between: that time counts for neither. Of short occurrences the newest `keep_flaps` are kept."""
    state = advance(state, rule, down_until)
    flaps = state.flaps
    if rule is not None and state.timed_out_at is None:
        flaps = (*flaps, up_since)[-keep_flaps:]
    return replace(state, down_since=None, up_since=up_since, flaps=flaps)


def advance(state: DurationState, rule: DurationRule | None, now: float) -> DurationState:
    """What time alone changes."""
    if rule is None:
        return state
    if state.timed_out_at is None:
        if state.down_since is not None and now - state.down_since > rule.fault_timeout_s:
            return replace(state, timed_out_at=state.down_since + rule.fault_timeout_s)
    elif state.up_since is not None and now - state.up_since > rule.recover_timeout_s:
        return replace(state, timed_out_at=None)
    return state


def reconfigured(state: DurationState, rule: DurationRule | None) -> DurationState:
    """Without a rule nothing is timed out; how long the code has been there is remembered for the next rule."""
    return state if rule else replace(state, timed_out_at=None, flaps=())


def without_old_flaps(state: DurationState, now: float, *, window_s: float) -> DurationState:
    """The same without the flaps that ended more than `window_s` ago."""
    if not state.flaps or now - state.flaps[0] <= window_s:
        return state
    return replace(state, flaps=tuple(t for t in state.flaps if now - t <= window_s))


def next_change(state: DurationState, rule: DurationRule | None) -> float | None:
    """The moment after which `advance` changes something, None = never by time alone."""
    if rule is None:
        return None
    if state.timed_out_at is None:
        return None if state.down_since is None else state.down_since + rule.fault_timeout_s
    return None if state.up_since is None else state.up_since + rule.recover_timeout_s
