"""The chips that somebody has to repair, replace or look at: a row for each fault that keeps its chip out of use.

What a reset or a restart mends is no repair, and neither is a drill. A die that is listed as separated stays in the
list after its node is gone: that is when it lies on somebody's desk.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reconciler.core import clock
from reconciler.core.separated import Separation, die_of, entries, released_id
from reconciler.core.state import Heard, Record, State
from reconciler.core.taints import isolated, record_of
from shared import catalog
from shared.model import NODE, Chip, Fault, FaultLevel, Instant

_LEAST = FaultLevel.PRE_SEPARATE_NPU


class Repair(msgspec.Struct, frozen=True):
    """One fault of one chip. Times are RFC 3339.

    id: as in /v1/faults. die: stays with the chip in another slot; no driver tells a chip's printed serial number.
    meaning: None where no public document names the code. isolated_since: None = the node takes new work.
    isolated_s: for how long it has not, in seconds. marks: what speaks for a false alarm, or against the row.
    """

    node: str
    id: str
    chip: int | None
    pci: str | None
    die: str | None
    model: str | None
    code: str
    meaning: str | None
    level: str
    since: str | None
    isolated_since: str | None
    isolated_s: float | None
    marks: list[str]


def repairs(state: State, now: Instant, node: str | None = None) -> list[Repair]:
    """All of them (of this node), by node and id."""
    found = [
        *(row for name in sorted(state.heard) if node in (None, name) for row in _of_node(state, name, now)),
        *(row for row in _separated(state, now) if node in (None, row.node)),
    ]
    return sorted(found, key=lambda row: (row.node, row.id))


def _of_node(state: State, name: str, now: Instant) -> Iterator[Repair]:
    heard = state.heard[name]
    chips = {chip.phy: chip for chip in heard.report.chips}
    for fault in heard.report.faults:
        if fault.chip != NODE and fault.level >= _LEAST and fault.origin == "probe":
            chip = chips.get(fault.chip)
            row = _row(state, name, fault.id, fault.chip, chip, now)
            meaning = fault.evidence.get("name") or _meaning(fault.code)
            yield msgspec.structs.replace(
                row,
                code=fault.code,
                meaning=str(meaning) if meaning else None,
                level=fault.level.value,
                since=clock.rfc3339(fault.since),
                marks=[*_doubts(fault, chip, heard), *row.marks],
            )


def _doubts(fault: Fault, chip: Chip | None, heard: Heard) -> Iterator[str]:
    if not fault.confirmed:
        yield "unconfirmed"
    if chip is None or chip.health == "unknown" or any(one.chip in (NODE, fault.chip) for one in heard.report.unknown):
        yield "cannot be read now"


def _separated(state: State, now: Instant) -> Iterator[Repair]:
    """Dies of the list whose fault no report shows: the entry is all that is left to go by."""
    listed = entries((state.separated.data or {}) if state.separated is not None else {})
    shown = {one.die: (name, one.chip) for name, dies in state.separations.items() for one in dies}
    told = set(_told(state))
    for die, entry in listed.items():
        if die in told:
            continue
        name, phy = shown.get(die, (entry.node, entry.chip))
        heard = state.heard.get(name) if die in shown else None
        chip = next((one for one in heard.report.chips if one.phy == phy), None) if heard is not None else None
        row = _row(state, name, released_id(die), phy, chip, now)
        yield _of_entry(row, die, entry, here=die in shown)


def _of_entry(row: Repair, die: str, entry: Separation, *, here: bool) -> Repair:
    marks = row.marks if here else ["no node shows this die"]
    return msgspec.structs.replace(
        row,
        die=die,
        code=", ".join(entry.codes),
        meaning=_meaning(entry.codes[0]) if entry.codes else None,
        level=FaultLevel.MANUALLY_SEPARATE_NPU.value,
        since=entry.since,
        isolated_since=row.isolated_since if here else None,
        isolated_s=row.isolated_s if here else None,
        marks=marks,
    )


def _told(state: State) -> Iterator[str]:
    """Dies whose manual separation a report shows as a fault: they have their row."""
    for heard in state.heard.values():
        separated = {fault.chip for fault in heard.report.faults if fault.level is FaultLevel.MANUALLY_SEPARATE_NPU}
        for chip in heard.report.chips if separated else ():
            if chip.phy in separated and (die := die_of(chip)) is not None:
                yield die


def _row(state: State, name: str, id_: str, phy: int | None, chip: Chip | None, now: Instant) -> Repair:
    node = state.nodes.get(name)
    record = record_of(node) if node is not None else None
    since = record.since if record is not None and node is not None and isolated(node) else None
    began = clock.parse(since)
    return Repair(
        node=name,
        id=id_,
        chip=phy,
        pci=chip.pci if chip is not None else None,
        die=chip.die if chip is not None else None,
        model=chip.name if chip is not None else None,
        code="",
        meaning=None,
        level="",
        since=None,
        isolated_since=since,
        isolated_s=round(max(0.0, now.wall - began), 3) if began is not None else None,
        marks=list(_marks(record, id_)),
    )


def _marks(record: Record | None, id_: str) -> Iterator[str]:
    if record is None:
        return
    if id_ in record.released:
        yield "released by hand"
    if record.flaps:
        yield f"came back {record.flaps} times"


def _meaning(code: str) -> str | None:
    row = catalog.load().lookup(code)
    return row.name if row is not None else None
