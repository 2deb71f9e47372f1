"""The driver's side of detection: polls, events and the reads that events ask for, turned into entries of the book."""

from __future__ import annotations

from typing import Literal

import msgspec

from agent.detect.book import FaultBook
from agent.detect.chips import CHANGE_TOLD_S, LOST_ERRORS, UNSUPPORTED_ERRORS, ChipState
from agent.detect.codes import canonical, resumed
from agent.detect.inventory import Inventory
from agent.detect.readings import ChipEvent, ChipIdentity, ChipReading, DriverReading
from agent.detect.settings import DetectSettings
from shared.model import NODE, FaultLevel, Instant
from shared.names import (
    CODE_BOOT_FINISHED,
    CODE_CARD_LOST,
    CODE_CHIP_CHANGED,
    CODE_CODES_UNREAD,
    CODE_MONITOR_BLIND,
)

BLIND_POLLS = 2
"""So many polls in a row without an answer make the node blind; a single slow call does not."""
ALARM_POLLS = 2
"""So many polls in a row with a bad health and no code list are a fault; one may be a call that failed."""
WORST_HARMLESS = 1
"""Health is the highest severity of a chip's active events: 0 none or hint, 1 minor."""
COMM_LOST = "health 3 (critical) with an empty code list: the driver has lost the chip's heartbeat"
LISTS_NOTHING = "the driver lists no chip, and the host has some"


class Due(msgspec.Struct, frozen=True):
    """A read of one chip's code list that is wanted now; the answer goes to `Detector.reread`.

    confirm: an event that restarts pods, not yet seen in the list. recover: recover events whose hold is over.
    resync: notifications were lost or came too fast, or the chip has booted.
    """

    phy: int
    reason: Literal["confirm", "recover", "resync"]


def heartbeat_lost(health: int | None, codes: tuple[str, ...] | None) -> bool:
    """Whether such an answer is none about the chip, although no call failed."""
    return health == 3 and not codes


class DriverSide:
    """Owns the chips; what they show goes into `book`."""

    def __init__(self, book: FaultBook, chips: dict[int, ChipState], settings: DetectSettings) -> None:
        self._book = book
        self._chips = chips
        self._settings = settings
        self._inventory = Inventory(book, settings.lost_card_polls)
        self.silent_polls = 0

    def chip(self, who: ChipIdentity, now: Instant) -> ChipState:
        """The chip of this physical id. Another one in its place starts anew: faults, separation and history were the
        old one's. It is said, because a release by hand that somebody meant to do is no longer needed."""
        known = self._chips.get(who.phy)
        marks = known.replaced_by(who) if known else None
        if known is None or marks is not None:
            self._book.forget(who.phy, now)
            known = self._chips[who.phy] = ChipState(who)
        if marks is not None:
            known.changed_at = now.mono
            self._book.observed(who.phy, CODE_CHIP_CHANGED, now, evidence=marks)
        return known

    def tick(self, now: Instant) -> None:
        for chip in self._chips.values():
            if chip.changed_at is not None and now.mono - chip.changed_at > CHANGE_TOLD_S:
                chip.changed_at = None
                self._book.unobserved(chip.phy, CODE_CHIP_CHANGED, now)

    # Polls.

    def poll(self, reading: DriverReading, now: Instant) -> None:
        self._give_away(reading.passed_through, now)
        silent = reading.silent or self._lists_nothing(reading)
        if reading.passed_through and reading.pci == frozenset():
            silent = None  # every NPU of this host is with a virtual machine: there is nothing to be blind to
        hung: list[str] = []
        if silent:
            for chip in self._chips.values():
                chip.cannot_read(silent, now.wall)
        else:
            for one in reading.chips:
                self._polled(one, reading.pci, now)
                if one.hung:
                    hung.append(str(one.chip.phy))
            present = {one.chip.phy for one in reading.chips}
            for chip in [chip for phy, chip in self._chips.items() if phy not in present]:
                self._not_listed(chip, reading, now)
            self._inventory.compare(reading, sum(chip.enumerated for chip in self._chips.values()), now)
        self._watch_silence(silent or (f"calls for chip {', '.join(hung)} do not return" if hung else None), now)

    def _give_away(self, passed_through: frozenset[str], now: Instant) -> None:
        """Chips that have been handed to a virtual machine are none of this host's: not lost, and not unknown."""
        for chip in [chip for chip in self._chips.values() if chip.identity.pci in passed_through]:
            self._book.forget(chip.phy, now)
            del self._chips[chip.phy]

    def unseen(self, reading: DriverReading) -> str | None:
        """Which NPUs nobody has ever seen: no chip stands for them that could be unknown, so the node is."""
        known = [chip for chip in self._chips.values() if chip.enumerated]
        addresses = {chip.identity.pci for chip in known}
        strangers = set() if reading.pci is None or None in addresses else reading.pci - addresses
        if strangers:
            return f"on the PCI bus and not in the driver's list: {', '.join(sorted(strangers))}"
        absent = len(known) - len(reading.chips)
        if reading.gaps > absent:
            return f"the driver lists {reading.gaps - absent} chips that it cannot name: not ready, occupied or failed"
        return None

    def _lists_nothing(self, reading: DriverReading) -> str | None:
        """No chip at all is a broken list of the driver, unless the bus has none either."""
        expected = any(chip.enumerated for chip in self._chips.values()) if reading.pci is None else bool(reading.pci)
        return LISTS_NOTHING if expected and not reading.chips else None

    def _polled(self, one: ChipReading, pci: frozenset[str] | None, now: Instant) -> None:
        chip = self.chip(one.chip, now)
        chip.recognise(one.chip)
        answers = one.error is None and one.codes is not None
        if one.hung:
            chip.cannot_read(one.why or "its calls do not return", now.wall)
        elif one.error in LOST_ERRORS:
            self._missing(chip, one.why or f"the driver answers {one.error}", now)
        elif answers and heartbeat_lost(one.health, one.codes):
            self._missing(chip, COMM_LOST, now)
        elif answers and one.codes is not None:
            self.good_reading(chip, one.codes, one.health, now, poll=True)
        elif chip.off_bus(pci):
            self._missing(chip, f"not on the PCI bus, the driver answers {one.error}", now)
        elif one.error in UNSUPPORTED_ERRORS:
            chip.cannot_read(one.why or f"the driver does not support or permit the call ({one.error})", now.wall)
            self._alarm_without_codes(chip, one, now)
        else:
            chip.cannot_read(one.why or f"the call failed ({one.error})", now.wall)
            self._alarm_without_codes(chip, one, now)

    def _alarm_without_codes(self, chip: ChipState, one: ChipReading, now: Instant) -> None:
        """The chip's health could be read and its code list not, as when it has more codes than the driver lists: that
        it is ill is known, with what is not. The codes it had stay, and events go on telling of new ones."""
        if one.health is None:
            return  # nothing is known of it
        if one.health == 0:
            chip.alarm_polls = 0
            self._book.unobserved(chip.phy, CODE_CODES_UNREAD, now)
            return
        chip.alarm_polls += 1
        if chip.alarm_polls >= ALARM_POLLS:
            level = FaultLevel.NOT_HANDLE if one.health <= WORST_HARMLESS else FaultLevel.PRE_SEPARATE_NPU
            evidence = {"health": str(one.health), "why": chip.unread or ""}
            self._book.observed(chip.phy, CODE_CODES_UNREAD, now, level=level, evidence=evidence)

    def _not_listed(self, chip: ChipState, reading: DriverReading, now: Instant) -> None:
        """A chip we know is not in the reading at all."""
        if not chip.enumerated:  # only an event or a link ever named it, and no list of the driver bears it out
            for track in self._book.of(chip.phy):
                if track.event_at is not None:
                    self._book.unlisted(track, now, last_seen=now.mono, poll=True)
        elif not chip.off_bus(reading.pci) and (gone := self._off_bus(reading.pci)):
            # on an A3 one bad die takes its whole card out of the list, and a gap in the logic ids may cost another
            chip.cannot_read(f"on the PCI bus and left out by the driver, which has lost chip {gone[0].phy}", now.wall)
        elif reading.fresh or chip.off_bus(reading.pci):
            self._missing(chip, "not in the driver's card list", now)
        else:
            chip.cannot_read("not in the driver's card list, which is about to be read anew", now.wall)

    def _off_bus(self, pci: frozenset[str] | None) -> list[ChipState]:
        return [chip for chip in self._chips.values() if chip.enumerated and chip.off_bus(pci)]

    def _missing(self, chip: ChipState, why: str, now: Instant) -> None:
        chip.cannot_read(why, now.wall)
        chip.lost_polls += 1
        if chip.lost_polls >= self._settings.lost_card_polls:
            self._book.observed(chip.phy, CODE_CARD_LOST, now, evidence={"why": why})

    def _watch_silence(self, why: str | None, now: Instant) -> None:
        self.silent_polls = self.silent_polls + 1 if why else 0
        if why is None:
            self._book.unobserved(NODE, CODE_MONITOR_BLIND, now)
        elif self.silent_polls >= BLIND_POLLS:
            self._book.observed(NODE, CODE_MONITOR_BLIND, now, evidence={"why": why})

    def good_reading(
        self, chip: ChipState, codes: tuple[str, ...], health: int | None, now: Instant, *, poll: bool
    ) -> None:
        """The driver's newest code list of one chip: the truth about it."""
        # What went while the chip could not be read was there until it was last seen, as far as we may claim.
        last_seen = now.mono if chip.unread is None or chip.seen_at is None else chip.seen_at
        listed = {canonical(code): None for code in codes if not resumed(code) and code != CODE_BOOT_FINISHED}
        chip.codes, chip.health, chip.seen_at = tuple(listed), health, now.mono
        chip.unread, chip.lost_polls, chip.alarm_polls = None, 0, 0
        self._book.unobserved(chip.phy, CODE_CARD_LOST, now)
        self._book.unobserved(chip.phy, CODE_CODES_UNREAD, now)
        for code in listed:
            self._book.listed(chip.phy, code, now)
        for track in self._book.of(chip.phy):
            if track.code not in listed and (track.listed or track.event_at is not None):
                self._book.unlisted(track, now, last_seen=last_seen, poll=poll)

    # Events, and the reads they ask for.

    def event(self, event: ChipEvent, now: Instant) -> None:
        chip = self.chip(ChipIdentity(event.phy), now)
        if not chip.admits(event, now.mono):
            return
        ended, code = resumed(event.code), canonical(event.code)
        if code == CODE_BOOT_FINISHED:
            chip.want_reading(now.mono)
        elif ended or event.assertion == "recover":
            track = self._book.get(event.phy, ended or code)
            if track and track.recover_at is None and (track.listed or track.event_at is not None):
                track.recover_at = now.mono
        else:
            if event.severity is not None:
                self._book.severity(code, event.severity)
            self._book.heard(event.phy, code, now, once=event.assertion == "once")

    def answer(self, phy: int, codes: tuple[str, ...] | None, health: int | None, now: Instant) -> None:
        """The answer to a Due. `codes` None: none could be had, the recover events that waited are dropped. The same
        for the empty list of a chip whose heartbeat is lost: it would end every fault the chip has."""
        chip = self._chips.get(phy)
        if chip is None:
            return
        if codes is not None and not heartbeat_lost(health, codes):
            self.good_reading(chip, codes, health, now, poll=False)
        for track in self._book.of(phy):
            track.confirm = False
            if track.recover_at is not None and self._hold_is_over(track.recover_at, now):
                track.recover_at = track.again_at = None
        if chip.resync_at is not None and chip.resync_at <= now.mono:
            chip.resync_at = None

    def _hold_is_over(self, arrived_at: float, now: Instant) -> bool:
        return arrived_at + self._settings.recover_hold_s <= now.mono

    def due(self, now: Instant) -> tuple[Due, ...]:
        found: list[Due] = []
        for phy, chip in self._chips.items():
            tracks = self._book.of(phy)
            if any(t.recover_at is not None and self._hold_is_over(t.recover_at, now) for t in tracks):
                found.append(Due(phy, "recover"))
            elif any(t.confirm for t in tracks):
                found.append(Due(phy, "confirm"))
            elif chip.resync_at is not None and chip.resync_at <= now.mono:
                found.append(Due(phy, "resync"))
        return tuple(found)
