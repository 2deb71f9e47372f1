"""The open faults of one node: tracks, the rules over them, and the events raised and cleared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

from agent.detect.chips import ChipState
from agent.detect.codes import HBM_MULTI_BIT_ECC
from agent.detect.rules import Rules
from agent.detect.settings import DetectSettings
from agent.detect.track import ACCOMPANY_S, UNCONFIRMED_POLLS, Subject, Track
from shared.catalog import Catalogue
from shared.model import FaultEvent, FaultLevel, Instant, fault_id
from shared.names import CODE_LINK_DOWN

TICK_S = 0.001
"""Time rules are strict: a rule of 20 s holds after 20 s, not at them. So much later is after."""
MAX_SEVERITIES = 1024
MAX_CODES = 1024
"""Codes of one chip that events alone may add; the driver's own list holds 128. More are noise of a chip gone mad."""

_ASKS_DRIVER = frozenset(FaultLevel) - {FaultLevel.NOT_HANDLE, FaultLevel.SUB_HEALTH, FaultLevel.PRE_SEPARATE_NPU}
"""Levels that restart pods: an event of one is confirmed by a read at once, because unconfirmed it deletes nothing."""


class FaultBook:
    """Tracks by subject and code. Every change ends in `_sync`, which alone opens and closes faults."""

    def __init__(
        self, catalogue: Catalogue, settings: DetectSettings, rules: Rules, chips: dict[int, ChipState]
    ) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._chips = chips
        self._tracks: dict[Subject, dict[str, Track]] = {}
        self._timers: dict[tuple[Subject, str], float] = {}  # when time alone changes a track next
        self._earliest = math.inf  # no timer is before it
        self.rules = rules
        self.severities: dict[str, int] = {}
        self.events: list[FaultEvent] = []

    def load(self, tracks: Iterable[Track]) -> None:
        for track in tracks:
            self._tracks.setdefault(track.subject, {})[track.code] = track
            self._set_timer(track)

    def all(self) -> Iterator[Track]:
        for tracks in self._tracks.values():
            yield from tracks.values()

    def of(self, subject: Subject) -> list[Track]:
        return list(self._tracks.get(subject, {}).values())

    def get(self, subject: Subject, code: str) -> Track | None:
        return self._tracks.get(subject, {}).get(code)

    # What has been seen or heard.

    def listed(self, phy: int, code: str, now: Instant) -> None:
        """The driver's newest list has the code."""
        track = self._active(phy, code, now)
        track.went_and_came(self.rules, self._settings)
        track.listed, track.event_at, track.polls_missed, track.confirm = True, None, 0, False
        track.count(self.rules)
        self._sync(track, now)

    def observed(
        self,
        subject: Subject,
        code: str,
        now: Instant,
        *,
        level: FaultLevel | None = None,
        evidence: dict[str, str],
        probe: str | None = None,
    ) -> None:
        """Something other than the driver's list has seen the fault itself."""
        track = self._active(subject, code, now)
        track.observed, track.level_found, track.evidence, track.probe = True, level, evidence, probe
        track.count(self.rules)
        self._sync(track, now)

    def unobserved(self, subject: Subject, code: str, now: Instant, *, last_seen: float | None = None) -> None:
        """It has looked and sees it no longer; what the driver lists stays. `last_seen`: when it could not look for
        a while, the moment before that."""
        track = self.get(subject, code)
        if track and track.observed:
            track.observed = False
            self._ended(track, now, last_seen=now.mono if last_seen is None else last_seen, gone_since=now.mono)

    def heard(self, phy: int, code: str, now: Instant, *, once: bool) -> None:
        """An event says that the fault is there (`once`: that it was, for a moment). The driver's list decides."""
        known = self.get(phy, code)
        if known and known.recover_at is not None and known.again_at is None:
            known.again_at, known.confirm = now.mono, True
        if known and known.listed:
            return
        if known is None and len(self._tracks.get(phy, ())) >= MAX_CODES:
            return
        track = self._active(phy, code, now)
        track.event_at, track.polls_missed = now.mono, 0
        if once:
            track.count(self.rules)
        else:
            timed = code in self.rules.frequency or code in self.rules.duration
            track.confirm = timed or self.base_level(track) in _ASKS_DRIVER
        self._sync(track, now)

    def unlisted(self, track: Track, now: Instant, *, last_seen: float, poll: bool) -> None:
        """A good reading does not list the code. `last_seen`: until when it surely did."""
        track.confirm = False
        gone_since = now.mono
        if track.recover_at is not None:
            last_seen = gone_since = track.recover_at  # the recover event was right, and it said so then
        elif track.event_at is not None:
            track.polls_missed += poll
            if track.polls_missed < UNCONFIRMED_POLLS:
                return
            last_seen = gone_since = track.event_at if track.start is None else track.start
        track.listed, track.event_at, track.recover_at, track.again_at = False, None, None, None
        self._ended(track, now, last_seen=last_seen, gone_since=gone_since)

    def severity(self, code: str, severity: int) -> None:
        """Remember what an event said of a code the catalogue does not know: polls carry no severity."""
        if self._catalogue.lookup(code) is None and (code in self.severities or len(self.severities) < MAX_SEVERITIES):
            self.severities[code] = severity

    def release(self, track: Track, now: Instant) -> None:
        """An operator gives the chip back: the count starts anew, a code that is still there keeps its own level."""
        track.frequency = type(track.frequency)()
        self._sync(track, now)

    def forget(self, subject: Subject, now: Instant) -> None:
        """The subject exists no more: its faults are over and its history belongs to nobody."""
        for track in self.of(subject):
            if track.is_open:
                self._event("cleared", track, now)
        for code in self._tracks.pop(subject, {}):
            self._timers.pop((subject, code), None)

    def reconfigure(self, rules: Rules, now: Instant) -> None:
        self.rules = rules
        for track in list(self.all()):
            track.reconfigure(rules)
            self._sync(track, now)

    # Time.

    def tick(self, now: Instant) -> None:
        """Cheap while no timer is due, because every input starts with it: a storm has thousands."""
        if now.mono < self._earliest:
            return
        for subject, code in [key for key, due_at in self._timers.items() if due_at <= now.mono]:
            track = self.get(subject, code)
            if track:
                self._recheck(track, now)
        self._earliest = min(self._timers.values(), default=math.inf)

    def _recheck(self, track: Track, now: Instant) -> None:
        track.advance(self._known_until(track, now.mono), self.rules, self._settings)
        self._sync(track, now)

    def _set_timer(self, track: Track) -> None:
        change = track.next_change(self.rules, self._settings)
        if change is None:
            self._timers.pop((track.subject, track.code), None)
        else:
            self._timers[track.subject, track.code] = change
            self._earliest = min(self._earliest, change)

    def wake_times(self) -> Iterator[float]:
        for track in self.all():
            if track.confirm and track.event_at is not None:
                yield track.event_at
            if track.recover_at is not None:
                yield track.recover_at + self._settings.recover_hold_s
            change = self._timers.get((track.subject, track.code))
            if change is not None and self._known_until(track, math.inf) == math.inf:
                yield change + TICK_S

    def _known_until(self, track: Track, now: float) -> float:
        """Until when we know the code to be there or not. Beyond it time passes for no rule: an unknown neither
        raises nor clears, and a recover event that is being checked stops the clock when it arrives."""
        if not isinstance(track.subject, int):
            return now
        chip = self._chips[track.subject]
        if track.observed:
            blind = track.code == CODE_LINK_DOWN and chip.link_unknown is not None
            return min(now, chip.link_seen_at or now) if blind else now
        if chip.unread is not None:
            now = min(now, chip.seen_at if chip.seen_at is not None else track.start or 0.0)
        return now if track.recover_at is None else min(now, track.recover_at)

    # Levels.

    def base_level(self, track: Track) -> FaultLevel:
        """The level of the code itself: the cluster's file, else what its probe says, else the catalogue."""
        configured = self.rules.levels.get(track.code) or track.level_found
        if configured:
            return configured
        row = self._catalogue.lookup(track.code)
        if row:
            return row.level
        health = None
        if track.listed and isinstance(track.subject, int):
            health = self._chips[track.subject].health
        return self._catalogue.unknown_level(track.code, severity=self.severities.get(track.code), health=health)

    def level(self, track: Track) -> FaultLevel | None:
        return track.level(self.base_level(track), self.rules, self._settings)

    # The only places where tracks come and go.

    def _active(self, subject: Subject, code: str, now: Instant) -> Track:
        track = self._tracks.setdefault(subject, {}).setdefault(code, Track(code, subject))
        if not track.active:
            track.begin(now.mono, self.rules)
            self._shadow(track, now.mono)
        return track

    def _ended(self, track: Track, now: Instant, *, last_seen: float, gone_since: float) -> None:
        if not track.active:
            start = last_seen if track.start is None else track.start
            track.end(max(last_seen, start), max(gone_since, start), self.rules, self._settings)
        self._recheck(track, now)

    def _shadow(self, track: Track, at: float) -> None:
        """An HBM fault explains the bus faults close to it, before and after."""
        if HBM_MULTI_BIT_ECC not in self.rules.duration:
            return
        hbm = self.get(track.subject, HBM_MULTI_BIT_ECC)
        if hbm is None or hbm.start is None:
            return
        for other in [track] if track is not hbm else self.of(track.subject):
            if other.wait_until is not None and abs(hbm.start + ACCOMPANY_S - other.wait_until) < ACCOMPANY_S:
                other.shadow, other.wait_until = True, None

    def _sync(self, track: Track, now: Instant) -> None:
        is_open = self.level(track) is not None
        if is_open and not track.is_open:
            track.is_open, track.since_wall = True, now.wall
            self._event("raised", track, now)
        elif not is_open and track.is_open:
            track.is_open = track.confirmed = False
            self._event("cleared", track, now)
            if track.code == HBM_MULTI_BIT_ECC:
                self._unshadow(track.subject, now)
        if track.is_open and (track.listed or track.observed) and track.shown:
            track.confirmed = True
        if track.forgettable:
            self._tracks[track.subject].pop(track.code, None)
            self._timers.pop((track.subject, track.code), None)
        else:
            self._set_timer(track)

    def _unshadow(self, subject: Subject, now: Instant) -> None:
        """The HBM fault is over: a bus fault that stays on its own will be shown."""
        for other in self.of(subject):
            if other.shadow:
                other.shadow, other.wait_until = False, now.mono + ACCOMPANY_S
                self._set_timer(other)

    def _event(self, kind: Literal["raised", "cleared"], track: Track, now: Instant) -> None:
        self.events.append(FaultEvent(kind, fault_id(track.code, track.subject), now.wall))
