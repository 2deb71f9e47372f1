"""What the driver said of the faults of a unit, as its Recovery keeps it: bounded, taken when its pods are claimed.

The chip is reset, replaced or simply read differently an hour later; then this is what a repair goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from reconciler.core import clock
from reconciler.core.recovery import Evidence, Target
from reconciler.core.state import Heard, State
from shared.model import NODE, Fault, FaultLevel

MAX_FAULTS = 16
MAX_CODES = 32
MAX_DETAIL = 300
"""Characters; with all of them a Recovery grows by 10 KiB at most."""


def evidence_of(state: State, nodes: Iterable[str], targets: Iterable[Target]) -> tuple[Evidence, ...]:
    """The open faults of these nodes and of the chips that these pods hold, the most serious first.

    A chip of these nodes that none of the pods holds is left out, unless nobody knows which they hold.
    """
    held: dict[str, set[int] | None] = {name: set() for name in nodes}
    for target in targets:
        if target.node is None:
            continue
        known = held.setdefault(target.node, set())
        if known is not None:
            held[target.node] = None if target.chips is None else known | set(target.chips)
    found = [
        (fault, one)
        for name, chips in sorted(held.items())
        if (heard := state.heard.get(name)) is not None
        for fault, one in _of_node(name, heard, chips)
    ]
    found.sort(key=lambda pair: pair[0].level, reverse=True)
    return tuple(one for _, one in found[:MAX_FAULTS])


def _of_node(name: str, heard: Heard, chips: set[int] | None) -> Iterator[tuple[Fault, Evidence]]:
    shown = {chip.phy: chip for chip in heard.report.chips}
    for fault in sorted(heard.report.faults, key=lambda fault: fault.id):
        on_chip = fault.chip != NODE
        if fault.level is FaultLevel.NOT_HANDLE or (on_chip and chips is not None and fault.chip not in chips):
            continue
        chip = shown.get(fault.chip) if fault.chip != NODE else None
        yield (
            fault,
            Evidence(
                node=name,
                code=fault.code,
                level=fault.level.value,
                since=clock.rfc3339(fault.since),
                chip=fault.chip if fault.chip != NODE else None,
                pci=chip.pci if chip is not None else None,
                die=chip.die if chip is not None else None,
                codes=chip.codes[:MAX_CODES] if chip is not None else (),
                part=fault.part,
                confirmed=fault.confirmed,
                origin=fault.origin,
                detail=msgspec.json.encode(fault.evidence).decode()[:MAX_DETAIL] if fault.evidence else "",
            ),
        )
