"""From sensor readings to debounced faults: the state machine of one node. No clock, no I/O: `now` is an argument.

Polling is the truth, events give the speed. Three values: a chip that cannot be read keeps the faults it has, no rule's
time runs for it, and it is listed as unknown. A reading that succeeds decides, whatever events said before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from agent.detect import view
from agent.detect.book import TICK_S, FaultBook
from agent.detect.chips import NOT_READ_YET, ChipState
from agent.detect.codes import canonical
from agent.detect.complaints import Complaint
from agent.detect.driver import DriverSide, Due
from agent.detect.looks import Looks
from agent.detect.memory import BlindProbe, DetectorMemory
from agent.detect.overlay import Overlay, Override, Read
from agent.detect.readings import ChipEvent, ChipFinding, ChipIdentity, DriverReading, LinkReading, NodeFinding
from agent.detect.settings import DetectSettings
from agent.detect.view import DetectView
from shared.catalog import Catalogue
from shared.model import NODE, FaultEvent, FaultLevel, Instant, fault_id
from shared.names import CODE_LINK_DOWN, CODE_PROBE_FAILING

PROBE_GONE_S = 3600.0
"""What a probe has found that no longer runs stays so long, unknown to be still there; nobody can ever clear it."""
PROBE_FAILING_S = 300.0
"""A host probe that cannot look for longer is worth a (harmless) fault of its own: NW-PROBE."""

_LEVELS = frozenset(level.value for level in FaultLevel)


class Detector:
    """Feed it readings in the order in which they happen; ask `due` and `wake_at` after each.

    memory: what `memory()` gave before the restart, already `rebased` on this boot's clock.
    """

    def __init__(self, catalogue: Catalogue, settings: DetectSettings, memory: DetectorMemory | None = None) -> None:
        self._catalogue, self._settings = catalogue, settings
        self.overlay = Overlay(catalogue)
        self._chips: dict[int, ChipState] = {}
        self._book = FaultBook(catalogue, settings, self.overlay.rules, self._chips)
        self._driver = DriverSide(self._book, self._chips, settings)
        self._blind_probes: dict[str, BlindProbe] = {}
        self._looks = Looks(memory.looks if memory else {})
        if memory:
            self._chips.update((chip.phy, replace(chip, unread=NOT_READ_YET, serial=None)) for chip in memory.chips)
            # A track of a chip that is not among the chips is of a damaged file: nobody could ever look at it.
            known = {*self._chips, NODE}
            self._book.load(replace(track) for track in memory.tracks if track.subject in known)
            self._book.severities.update(memory.severities)
            self._driver.silent_polls = memory.silent_polls
            self._blind_probes.update(memory.blind_probes)

    def fork(self, now: Instant) -> Detector:
        """A copy that goes its own way from here: the same chips, faults, histories and rules."""
        copy = Detector(self._catalogue, self._settings, self.memory(now))
        copy.overlay = self.overlay
        copy._book.reconfigure(self.overlay.rules, now)
        return copy

    # Readings.

    def driver(self, reading: DriverReading, now: Instant) -> None:
        """One poll of the whole driver."""
        self.tick(now)
        self._driver.poll(reading, now)
        if reading.silent is None:
            self.node_blind(view.PROBE_DRIVER, self._driver.unseen(reading), now)
        elif not any(chip.enumerated for chip in self._chips.values()):  # nobody else stands for what cannot be seen
            self.node_blind(view.PROBE_DRIVER, reading.silent if self._driver.silent_polls else None, now)
        self.tick(now)

    def events(self, events: Sequence[ChipEvent], now: Instant) -> None:
        """Notifications of the driver, in the order of their arrival."""
        self.tick(now)
        for event in events:
            self._driver.event(event, now)

    def reread(
        self,
        phy: int,
        codes: tuple[str, ...] | None,
        now: Instant,
        error: int | None = None,
        health: int | None = None,
    ) -> None:
        """The answer to a `Due`: the chip's code list, or None (with the driver's return code) when it has none.

        A recover event that the list contradicts, or that cannot be checked, is dropped: the next poll decides.
        """
        self.tick(now)
        self._driver.answer(phy, codes if error is None else None, health, now)
        self.tick(now)

    def links(self, readings: Sequence[LinkReading], now: Instant, *, probe: str | None = None) -> None:
        """What hccn_tool says of the ports. Down is a fault of its own; up clears nothing that the driver lists."""
        self.tick(now)
        for reading in readings:
            chip = self._driver.chip(ChipIdentity(reading.phy), now)
            if reading.up is None:
                chip.cannot_see_link(reading.why, now.wall)
                continue
            last_seen = None if chip.link_unknown is None else chip.link_seen_at
            chip.link_unknown, chip.link_seen_at = None, now.mono
            if reading.up:
                self._book.unobserved(chip.phy, CODE_LINK_DOWN, now, last_seen=last_seen)
            else:
                self._book.observed(chip.phy, CODE_LINK_DOWN, now, evidence={"seen_by": "hccn_tool"}, probe=probe)
        self.tick(now)

    def node(self, findings: Sequence[NodeFinding], now: Instant, *, probe: str | None = None) -> None:
        """Findings about the host; each speaks for its own code alone."""
        self.tick(now)
        for finding in findings:
            code = canonical(finding.code)
            if finding.active:
                level = FaultLevel(finding.level) if finding.level in _LEVELS else None
                self._book.observed(NODE, code, now, level=level, evidence=dict(finding.evidence), probe=probe)
            else:
                self._book.unobserved(NODE, code, now)

    def chips(self, findings: Sequence[ChipFinding], now: Instant, *, probe: str | None = None) -> None:
        """What probes beside the driver's own list have found on chips; each speaks for its own code alone."""
        self.tick(now)
        for finding in findings:
            chip, code = self._driver.chip(ChipIdentity(finding.phy), now), canonical(finding.code)
            if finding.active:
                self._book.observed(chip.phy, code, now, evidence=dict(finding.evidence), probe=probe)
            else:
                self._book.unobserved(chip.phy, code, now)

    def forget_probes(self, known: Collection[str], now: Instant) -> list[str]:
        """To be told once which probes this process runs. The others are nobody's to clear: without findings they are
        forgotten, else they are blind for PROBE_GONE_S, and then what they found is over. Returns what was found."""
        kept = {*known, view.PROBE_DRIVER}
        found: dict[str, list[str]] = {}
        for track in self._book.all():
            if track.observed and track.probe is not None and track.probe not in kept:
                found.setdefault(track.probe, []).append(fault_id(track.code, track.subject))
        before = self._blind_probes
        self._blind_probes = {name: one for name, one in before.items() if name in kept and not one.gone}
        self._looks.keep(kept)
        complaints: list[str] = []
        for name, faults in sorted(found.items()):
            known_since = before[name].since if name in before and before[name].gone else now
            left_s = max(0.0, known_since.mono + PROBE_GONE_S - now.mono)
            why = f"this agent does not run it, so nobody can tell whether {', '.join(sorted(faults))} lasts"
            self._blind_probes[name] = BlindProbe(why, known_since, gone=True)
            complaints.append(f"probe {name}: {why}; it is cleared in {left_s:.0f} s")
        return complaints

    def node_blind(self, probe: str, why: str | None, now: Instant) -> None:
        """A probe cannot look, or not at everything, and why (None: it can again). Its findings stay as they are."""
        self._looks.note(probe, why)
        if why is None:
            self._blind_probes.pop(probe, None)
        else:
            known = self._blind_probes.get(probe)
            self._blind_probes[probe] = BlindProbe(why, known.since if known else now)
        self.tick(now)

    def config(self, files: Mapping[str, str | None], now: Instant) -> list[Complaint]:
        """The new content of the given files (None: the file is gone); files not named stay as they are.

        Returns a complaint for each entry, or whole file, that was not used. A file that cannot be read keeps its
        last good content, and the built-in rules where there never was one.
        """
        return self.configure(self.overlay.parse(files), now)

    def configure(self, files: Mapping[str, Read], now: Instant) -> list[Complaint]:
        """The same, of files that `overlay.parse` has read."""
        complaints = self.overlay.take(files)
        self._book.reconfigure(self.overlay.rules, now)
        self.tick(now)
        return complaints

    def operator_release(self, phy: int, code: str, now: Instant) -> bool:
        """An operator ends a manual separation. False: there is none of this code on this chip."""
        self.tick(now)
        track = self._book.get(phy, canonical(code))
        if track is None or track.frequency.tripped is not FaultLevel.MANUALLY_SEPARATE_NPU:
            return False
        self._book.release(track, now)
        return True

    # Time.

    def tick(self, now: Instant) -> None:
        """Timers that are due."""
        self._book.tick(now)
        self._driver.tick(now)
        self._end_findings_of_gone_probes(now)
        failing = self._looks.failing_often() | {
            name: probe.why
            for name, probe in self._blind_probes.items()
            if now.mono - probe.since.mono > PROBE_FAILING_S
        }
        if failing:
            self._book.observed(NODE, CODE_PROBE_FAILING, now, evidence=failing)
        else:
            self._book.unobserved(NODE, CODE_PROBE_FAILING, now)

    def _end_findings_of_gone_probes(self, now: Instant) -> None:
        for name, blind in list(self._blind_probes.items()):
            if blind.gone and now.mono - blind.since.mono > PROBE_GONE_S:
                del self._blind_probes[name]
                for track in [track for track in self._book.all() if track.observed and track.probe == name]:
                    self._book.unobserved(track.subject, track.code, now)

    def due(self, now: Instant) -> tuple[Due, ...]:
        """Reads to make now, one a chip at most; each stays due until `reread` or a poll answers it."""
        return self._driver.due(now)

    @property
    def wake_at(self) -> float | None:
        """Monotonic time at which `tick` or `due` has work; past: now. None: only a reading changes things."""
        times = list(self._book.wake_times())
        times += [chip.resync_at for chip in self._chips.values() if chip.resync_at is not None]
        gone = [probe.since.mono for probe in self._blind_probes.values() if probe.gone]
        times += [since + PROBE_GONE_S + TICK_S for since in gone]
        if self._book.get(NODE, CODE_PROBE_FAILING) is None:
            times += [probe.since.mono + PROBE_FAILING_S + TICK_S for probe in self._blind_probes.values()]
        return min(times, default=None)

    # Results.

    def view(self, now: Instant) -> DetectView:
        self.tick(now)
        return view.build(self._book, self._chips, self._blind_probes, self._catalogue)

    def rules_of(self, code: str) -> list[Override]:
        """Every rule in force for one code, in whichever form it is spelled, and where each comes from."""
        name = canonical(code)
        return self.overlay.of_code(name, self._book.severities.get(name))

    def drain_events(self) -> tuple[FaultEvent, ...]:
        """Faults raised and cleared since the last call, in order."""
        drained, self._book.events = tuple(self._book.events), []
        return drained

    def memory(self, now: Instant) -> DetectorMemory:
        """Everything that must survive the process, to be saved in one transaction with the events."""
        return DetectorMemory(
            saved=now,
            tracks=[replace(track) for track in self._book.all()],
            chips=[replace(chip) for chip in self._chips.values()],
            severities=dict(self._book.severities),
            silent_polls=self._driver.silent_polls,
            blind_probes=dict(self._blind_probes),
            looks=self._looks.memory(),
        )
