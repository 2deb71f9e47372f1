"""From sensor readings to debounced faults: the state machine of one node. No clock, no I/O: `now` is an argument.

Polling is the truth, events give the speed. Three values: a chip that cannot be read keeps the faults it has, no rule's
time runs for it, and it is listed as unknown. A reading that succeeds decides, whatever events said before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from agent.detect import rules, view
from agent.detect.book import TICK_S, FaultBook
from agent.detect.chips import NOT_READ_YET, ChipState
from agent.detect.codes import canonical
from agent.detect.driver import DriverSide, Due
from agent.detect.memory import BlindProbe, DetectorMemory
from agent.detect.readings import ChipEvent, ChipFinding, ChipIdentity, DriverReading, LinkReading, NodeFinding
from agent.detect.rules import Rules, UnusableFile
from agent.detect.settings import DetectSettings
from agent.detect.view import DetectView
from shared.catalog import Catalogue
from shared.model import NODE, FaultEvent, FaultLevel, Instant
from shared.names import CODE_LINK_DOWN, CODE_PROBE_FAILING

PROBE_FAILING_S = 300.0
"""A host probe that cannot look for longer is worth a (harmless) fault of its own: NW-PROBE."""

_LEVELS = frozenset(level.value for level in FaultLevel)


class Detector:
    """Feed it readings in the order in which they happen; ask `due` and `wake_at` after each.

    memory: what `memory()` gave before the restart, already `rebased` on this boot's clock.
    """

    def __init__(self, catalogue: Catalogue, settings: DetectSettings, memory: DetectorMemory | None = None) -> None:
        self._catalogue = catalogue
        self._files: dict[str, Rules] = {}
        self._chips: dict[int, ChipState] = {}
        self._book = FaultBook(catalogue, settings, rules.builtin(), self._chips)
        self._driver = DriverSide(self._book, self._chips, settings)
        self._blind_probes: dict[str, BlindProbe] = {}
        if memory:
            self._chips.update((chip.phy, replace(chip, unread=NOT_READ_YET, serial=None)) for chip in memory.chips)
            self._book.load(replace(track) for track in memory.tracks)
            self._book.severities.update(memory.severities)
            self._driver.silent_polls = memory.silent_polls
            self._blind_probes.update(memory.blind_probes)

    # Readings.

    def driver(self, reading: DriverReading, now: Instant) -> None:
        """One poll of the whole driver."""
        self.tick(now)
        self._driver.poll(reading, now)
        if reading.silent is None:
            self.node_blind(view.PROBE_DRIVER, self._driver.unseen(reading), now)
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

    def links(self, readings: Sequence[LinkReading], now: Instant) -> None:
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
                self._book.observed(chip.phy, CODE_LINK_DOWN, now, evidence={"seen_by": "hccn_tool"})
        self.tick(now)

    def node(self, findings: Sequence[NodeFinding], now: Instant) -> None:
        """Findings about the host; each speaks for its own code alone."""
        self.tick(now)
        for finding in findings:
            code = canonical(finding.code)
            if finding.active:
                level = FaultLevel(finding.level) if finding.level in _LEVELS else None
                self._book.observed(NODE, code, now, level=level, evidence=dict(finding.evidence))
            else:
                self._book.unobserved(NODE, code, now)

    def chips(self, findings: Sequence[ChipFinding], now: Instant) -> None:
        """What probes beside the driver's own list have found on chips; each speaks for its own code alone."""
        self.tick(now)
        for finding in findings:
            chip, code = self._driver.chip(ChipIdentity(finding.phy), now), canonical(finding.code)
            if finding.active:
                self._book.observed(chip.phy, code, now, evidence=dict(finding.evidence))
            else:
                self._book.unobserved(chip.phy, code, now)

    def forget_probes(self, known: Collection[str]) -> None:
        """Probes that this process does not run cannot be blind: nobody would ever say that they see again."""
        kept = {*known, view.PROBE_DRIVER}
        self._blind_probes = {name: probe for name, probe in self._blind_probes.items() if name in kept}

    def node_blind(self, probe: str, why: str | None, now: Instant) -> None:
        """A probe cannot look, or not at everything, and why (None: it can again). Its findings stay as they are."""
        if why is None:
            self._blind_probes.pop(probe, None)
        else:
            known = self._blind_probes.get(probe)
            self._blind_probes[probe] = BlindProbe(why, known.since if known else now)
        self.tick(now)

    def config(self, files: Mapping[str, str | None], now: Instant) -> list[str]:
        """The new content of the given files (None: the file is gone); files not named stay as they are.

        Returns a complaint for each entry, or whole file, that was not used. A file that cannot be read keeps its
        last good content, and the built-in rules where there never was one.
        """
        complaints: list[str] = []
        for name, text in files.items():
            if text is None:
                self._files.pop(name, None)
                continue
            try:
                self._files[name], skipped = rules.parse(name, text, self._catalogue)
            except UnusableFile as exc:
                complaints.append(f"{exc}; what was in force before stays in force")
            else:
                complaints += skipped
        merged = rules.builtin()
        for parsed in self._files.values():
            merged = parsed.over(merged)
        self._book.reconfigure(merged, now)
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
        failing = {
            name: probe.why
            for name, probe in self._blind_probes.items()
            if now.mono - probe.since.mono > PROBE_FAILING_S
        }
        if failing:
            self._book.observed(NODE, CODE_PROBE_FAILING, now, evidence=failing)
        else:
            self._book.unobserved(NODE, CODE_PROBE_FAILING, now)

    def due(self, now: Instant) -> tuple[Due, ...]:
        """Reads to make now, one a chip at most; each stays due until `reread` or a poll answers it."""
        return self._driver.due(now)

    @property
    def wake_at(self) -> float | None:
        """Monotonic time at which `tick` or `due` has work; past: now. None: only a reading changes things."""
        times = list(self._book.wake_times())
        times += [chip.resync_at for chip in self._chips.values() if chip.resync_at is not None]
        if self._book.get(NODE, CODE_PROBE_FAILING) is None:
            times += [probe.since.mono + PROBE_FAILING_S + TICK_S for probe in self._blind_probes.values()]
        return min(times, default=None)

    # Results.

    def view(self, now: Instant) -> DetectView:
        self.tick(now)
        return view.build(self._book, self._chips, self._blind_probes, self._catalogue)

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
        )
