"""One code on one subject: who says it is there, what the time rules have counted, and whether it is an open fault.

A track is kept while anything of it may still matter: the code is there, a rule holds it, or a hit is in its window.
All times are seconds on the monotonic clock unless the name says `wall`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from agent.detect import duration, frequency
from agent.detect.codes import BUS_FAULTS, HBM_MULTI_BIT_ECC
from agent.detect.duration import DurationState
from agent.detect.frequency import FrequencyState
from agent.detect.rules import Rules
from agent.detect.settings import DetectSettings
from shared.model import FaultLevel

ACCOMPANY_S = 5.0
"""An AIC or AIV bus fault so close to an HBM fault is its shadow (MindCluster: AssociatedFaultDiagnosisTime)."""
UNCONFIRMED_POLLS = 2
"""An event that so many polls have not confirmed was no fault. One could have been read before the event came."""

Subject = int | Literal["node"]


class Track(msgspec.Struct, omit_defaults=True):
    """listed: the newest code list of the driver has it. observed: something else that can look has seen it (hccn_tool,
    the missing card, a host probe). event_at: an event says so and nobody has confirmed it yet.

    start: when the present or the latest occurrence began. counted: the rules have been told of it.
    probe: which probe has observed it last; None = the driver's side, or one before probes were remembered.
    shadow: a bus fault not shown, because an HBM fault explains it; wait_until: not shown before it is clear whether.
    recover_at: when the recover event arrived that still waits to be checked. again_at: when an event said that the
    code is back while it waited. confirm: a read is wanted at once.
    """

    code: str
    subject: Subject
    listed: bool = False
    observed: bool = False
    event_at: float | None = None
    polls_missed: int = 0
    recover_at: float | None = None
    again_at: float | None = None
    confirm: bool = False
    start: float | None = None
    counted: bool = False
    shadow: bool = False
    wait_until: float | None = None
    frequency: FrequencyState = FrequencyState()
    duration: DurationState = DurationState()
    is_open: bool = False
    confirmed: bool = False
    since_wall: float = 0.0
    level_found: FaultLevel | None = None
    probe: str | None = None
    evidence: dict[str, str] = {}

    @property
    def active(self) -> bool:
        return self.listed or self.observed or self.event_at is not None

    @property
    def shown(self) -> bool:
        return self.active and not self.shadow and self.wait_until is None

    def begin(self, at: float, rules: Rules) -> None:
        """The code was not there and now is."""
        self.start = at
        self.polls_missed = 0
        if self.code in BUS_FAULTS and HBM_MULTI_BIT_ECC in rules.duration:
            self.wait_until = at + ACCOMPANY_S

    def count(self, rules: Rules) -> None:
        """Tell the time rules of the present occurrence, once. An occurrence in the shadow of another is none."""
        if self.counted or self.shadow or self.wait_until is not None or self.start is None:
            return
        self.counted = True
        self.duration = duration.occurred(self.duration, self.start)
        rule = rules.frequency.get(self.code)
        if rule and self.code not in rules.duration:
            self.frequency = frequency.hit(self.frequency, rule, self.start)

    def went_and_came(self, rules: Rules, settings: DetectSettings) -> None:
        """The list has the code, and events say that it went and came back while the first of them was held: two
        occurrences, though no list has shown the moment between. Where somebody else sees the fault it never went."""
        if self.recover_at is None or self.again_at is None:
            return
        went, came, counts = self.recover_at, self.again_at, self.counted and not self.observed
        self.recover_at = self.again_at = None
        if counts:
            self.end(went, went, rules, settings)
            self.start = came

    def end(self, last_seen: float, gone_since: float, rules: Rules, settings: DetectSettings) -> None:
        """The code is not there any more. The two times differ when nobody could look in between."""
        if self.counted:
            before = self.duration
            rule = rules.duration.get(self.code)
            self.duration = duration.recovered(
                before, rule, down_until=last_seen, up_since=gone_since, keep_flaps=settings.flaps
            )
            self._duration_changed(before, rules)
            if self.duration.timed_out_at is None:
                self.frequency = frequency.ended(self.frequency, gone_since)
        self.listed = self.observed = self.counted = self.shadow = self.confirm = False
        self.event_at = self.wait_until = self.recover_at = self.again_at = None

    def advance(self, now: float, rules: Rules, settings: DetectSettings) -> None:
        """What time alone changes."""
        if self.wait_until is not None and now > self.wait_until:
            self.wait_until = None
            if self.listed or self.observed:
                self.count(rules)
        rule = rules.duration.get(self.code)
        while (after := duration.advance(self.duration, rule, now)) is not self.duration:
            before, self.duration = self.duration, after
            self._duration_changed(before, rules)
        self.duration = duration.without_old_flaps(self.duration, now, window_s=settings.flap_window_s)
        self.frequency = frequency.advance(self.frequency, rules.frequency.get(self.code), now)

    def _duration_changed(self, before: DurationState, rules: Rules) -> None:
        """A code with both rules: one timed-out episode is one hit, and it ends when the duration rule lets go."""
        timed_out_at, rule = self.duration.timed_out_at, rules.frequency.get(self.code)
        if timed_out_at is not None and before.timed_out_at is None and rule:
            self.frequency = frequency.hit(self.frequency, rule, timed_out_at)
        elif timed_out_at is None and before.timed_out_at is not None and before.up_since is not None:
            end = before.up_since + rules.duration[self.code].recover_timeout_s
            self.frequency = frequency.ended(self.frequency, end)

    def reconfigure(self, rules: Rules) -> None:
        self.frequency = frequency.reconfigured(self.frequency, rules.frequency.get(self.code))
        self.duration = duration.reconfigured(self.duration, rules.duration.get(self.code))
        if HBM_MULTI_BIT_ECC not in rules.duration:
            self.shadow, self.wait_until = False, None
            if self.listed or self.observed:
                self.count(rules)

    def level(self, base: FaultLevel, rules: Rules, settings: DetectSettings) -> FaultLevel | None:
        """The most serious of what the code itself and the rules say; None = no fault."""
        levels = [base] if self.shown else []
        rule = rules.duration.get(self.code)
        if rule and self.duration.timed_out_at is not None:
            levels.append(rule.level)
        if self.frequency.tripped:
            levels.append(self.frequency.tripped)
        if len(self.duration.flaps) >= settings.flaps:
            levels.append(FaultLevel.SUB_HEALTH)
        return max(levels, default=None)

    def next_change(self, rules: Rules, settings: DetectSettings) -> float | None:
        """The moment after which `advance` or `level` gives something new by time alone."""
        times = [
            self.wait_until,
            duration.next_change(self.duration, rules.duration.get(self.code)),
            frequency.next_change(self.frequency, rules.frequency.get(self.code)),
            self.duration.flaps[0] + settings.flap_window_s if self.duration.flaps else None,
        ]
        return min((t for t in times if t is not None), default=None)

    @property
    def forgettable(self) -> bool:
        """Nothing of it matters any more."""
        return not (
            self.active
            or self.is_open
            or self.frequency.hits
            or self.frequency.tripped
            or self.duration.timed_out_at is not None
            or self.duration.flaps
        )
