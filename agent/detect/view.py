"""What detection says at one moment, in the words of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.detect.book import FaultBook
from agent.detect.chips import NOT_READ_YET, ChipState
from agent.detect.memory import BlindProbe
from agent.detect.track import Subject, Track
from shared.catalog import Catalogue
from shared.model import NODE, Chip, Fault, FaultLevel, Health, Unknown, fault_id
from shared.names import CODE_CARD_LOST, RELEASE_AFTER

PROBE_DRIVER = "driver"
PROBE_LINK = "link"


class DetectView(msgspec.Struct, frozen=True):
    """faults: exactly the open ones. unknown: exactly the subjects that could not be looked at.
    healthy: whether each chip, and "node", takes new work: false from RestartRequest up, unknown alone changes nothing.
    """

    faults: tuple[Fault, ...]
    unknown: tuple[Unknown, ...]
    chips: tuple[Chip, ...]
    healthy: Mapping[Subject, bool]


def build(
    book: FaultBook, chips: Mapping[int, ChipState], blind_probes: Mapping[str, BlindProbe], catalogue: Catalogue
) -> DetectView:
    faults: list[Fault] = []
    for track in sorted((t for t in book.all() if t.is_open), key=lambda t: (str(t.subject), t.code)):
        level = book.level(track)
        if level is not None:
            faults.append(_fault(track, level, book, catalogue))
    listed = sorted((chip for chip in chips.values() if chip.enumerated), key=lambda chip: chip.phy)
    healthy: dict[Subject, bool] = {chip.phy: True for chip in listed} | {NODE: True}
    for fault in faults:
        if fault.level >= FaultLevel.RESTART_REQUEST:
            healthy[fault.chip] = False
    return DetectView(
        faults=tuple(faults),
        unknown=tuple(_unknown(listed, blind_probes, book)),
        chips=tuple(_chip(chip, _health(chip, healthy[chip.phy])) for chip in listed),
        healthy=healthy,
    )


def _fault(track: Track, level: FaultLevel, book: FaultBook, catalogue: Catalogue) -> Fault:
    row = catalogue.lookup(track.code)
    evidence: dict[str, Any] = dict(track.evidence)
    if row and row.name:
        evidence["name"] = row.name
    rule = book.rules.frequency.get(track.code)
    if level is FaultLevel.MANUALLY_SEPARATE_NPU and rule is not None and rule.release_s is not None:
        evidence[RELEASE_AFTER] = rule.release_s
    if track.frequency.tripped:
        evidence["rule"] = "frequency"
    elif track.duration.timed_out_at is not None:
        evidence["rule"] = "duration"
    elif not track.shown:
        evidence["rule"] = "flaps"
    return Fault(
        id=fault_id(track.code, track.subject),
        code=track.code,
        chip=track.subject,
        level=level,
        since=track.since_wall,
        confirmed=track.confirmed,
        part="link" if track.subject != NODE and catalogue.is_network(track.code) else None,
        evidence=evidence,
    )


def _unknown(chips: list[ChipState], blind_probes: Mapping[str, BlindProbe], book: FaultBook) -> list[Unknown]:
    found: list[Unknown] = []
    for chip in chips:
        lost = book.get(chip.phy, CODE_CARD_LOST)
        if chip.unread not in (None, NOT_READ_YET) and not (lost and lost.observed):
            found.append(Unknown(chip.phy, PROBE_DRIVER, chip.unread_since, chip.unread or ""))
        if chip.link_unknown is not None:
            found.append(Unknown(chip.phy, PROBE_LINK, chip.link_unknown_since, chip.link_unknown))
    found += [Unknown(NODE, name, probe.since.wall, probe.why) for name, probe in sorted(blind_probes.items())]
    return found


def _health(chip: ChipState, takes_work: bool) -> Health:
    if not takes_work:
        return "fault"
    return "ok" if chip.unread is None else "unknown"


def _chip(chip: ChipState, health: Health) -> Chip:
    who = chip.identity
    return Chip(
        phy=who.phy,
        health=health,
        card=who.card,
        chip=who.chip,
        logic=who.logic,
        pci=who.pci,
        die=who.die,
        name=who.name,
        codes=chip.codes,
    )
