"""What detection must not forget over a restart: open faults, hits, running times, the chips that should be there.

Times inside are of the monotonic clock at the time of saving. Within one boot that clock goes on for the next process;
after a reboot it begins anew, and the time between is taken from the wall clock.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from agent.detect.chips import ChipState
from agent.detect.duration import DurationState
from agent.detect.frequency import FrequencyState
from agent.detect.track import Track
from shared.model import Instant


class BlindProbe(msgspec.Struct, frozen=True, omit_defaults=True):
    """A host probe that cannot look: why, and since when on both clocks. gone: this agent does not run it at all."""

    why: str
    since: Instant
    gone: bool = False


class DetectorMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole state of a Detector at `saved`, as plain JSON. An unknown field of a newer version is ignored."""

    saved: Instant
    tracks: list[Track] = []
    chips: list[ChipState] = []
    severities: dict[str, int] = {}
    silent_polls: int = 0
    blind_probes: dict[str, BlindProbe] = {}
    looks: dict[str, str] = {}

    def rebased(self, now: Instant, *, same_boot: bool) -> DetectorMemory:
        """The same memory on the monotonic clock of `now`. To be called before a Detector gets it.

        same_boot: the boot id is the one under which it was saved, so both share one monotonic clock. After a reboot
        the wall clock tells how long the host was away; one that went backwards counts as no time at all.
        """
        if same_boot:
            return self
        away_s = max(0.0, now.wall - self.saved.wall)
        by = now.mono - away_s - self.saved.mono
        return replace(
            self,
            saved=now,
            tracks=[_shifted_track(track, by) for track in self.tracks],
            chips=[_shifted_chip(chip, by) for chip in self.chips],
            blind_probes={
                name: replace(probe, since=Instant(mono=probe.since.mono + by, wall=probe.since.wall))
                for name, probe in self.blind_probes.items()
            },
        )


def _moved(at: float | None, by: float) -> float | None:
    return None if at is None else at + by


def _shifted_track(track: Track, by: float) -> Track:
    hits, ended = track.frequency.hits, track.frequency.ended
    duration = track.duration
    return replace(
        track,
        event_at=_moved(track.event_at, by),
        recover_at=_moved(track.recover_at, by),
        again_at=_moved(track.again_at, by),
        start=_moved(track.start, by),
        wait_until=_moved(track.wait_until, by),
        frequency=FrequencyState(tuple(t + by for t in hits), track.frequency.tripped, _moved(ended, by)),
        duration=DurationState(
            _moved(duration.down_since, by),
            _moved(duration.up_since, by),
            _moved(duration.timed_out_at, by),
            tuple(t + by for t in duration.flaps),
        ),
    )


def _shifted_chip(chip: ChipState, by: float) -> ChipState:
    return replace(
        chip,
        seen_at=_moved(chip.seen_at, by),
        link_seen_at=_moved(chip.link_seen_at, by),
        resync_at=_moved(chip.resync_at, by),
        minute_from=chip.minute_from + by,
        changed_at=_moved(chip.changed_at, by),
    )
