"""Keeps the list of separated dies: a manual separation in a report enters one, a person's release takes it off."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Hold, KeepSeparations
from reconciler.core.separated import Separation, die_of, entries, released_id
from reconciler.core.state import State
from reconciler.core.taints import record_of
from shared.model import Fault, FaultLevel, Instant
from shared.names import RELEASE_AFTER, RELEASE_ANNOTATION, SEPARATED_CONFIGMAP

_LEVEL = FaultLevel.MANUALLY_SEPARATE_NPU
MAX_ENTRIES = 3000
"""About 200 bytes each, and an object of the API server ends at 1 MiB."""


def plan_separations(state: State, now: Instant) -> Iterator[KeepSeparations | Hold]:
    """At most one write: everything that is new, and everything that is over."""
    config = state.separated
    listed = entries((config.data or {}) if config is not None else {})
    wanted = _reported(state)
    fresh = {die: entry for die, entry in wanted.items() if die not in listed or _grown(listed[die], entry)}
    over = tuple(sorted(die for die in listed if die not in wanted and _is_over(state, die, listed[die], now)))
    room = MAX_ENTRIES - len(listed)
    added = {die: entry for die, entry in fresh.items() if die in listed}
    added |= dict([item for item in sorted(fresh.items()) if item[0] not in listed][: max(0, room)])
    if len(added) < len(fresh):
        text = f"{len(fresh) - len(added)} separated dies are not listed: {MAX_ENTRIES} is all the ConfigMap holds"
        yield Hold(SEPARATED_CONFIGMAP, "list-full", text)
    if added or over:
        texts = {die: msgspec.json.encode(entry).decode() for die, entry in sorted(added.items())}
        yield KeepSeparations(config, texts, over)


def _reported(state: State) -> dict[str, Separation]:
    """By die, what the reports show separated and nobody has released."""
    found: dict[str, Separation] = {}
    for name, heard in state.heard.items():
        if not heard.report.faults:
            continue
        manual = [fault for fault in heard.report.faults if fault.level is _LEVEL and _counts(state, fault)]
        node = state.nodes.get(name)
        if not manual or node is None or RELEASE_ANNOTATION in node.metadata.annotations or node.opted_out:
            continue
        record = record_of(node)
        released = record.released if record is not None else ()
        for chip in heard.report.chips:
            faults = [fault for fault in manual if fault.chip == chip.phy and fault.id not in released]
            die = die_of(chip)
            if faults and die is not None:
                found[die] = _entry(name, chip.phy, faults)
    return found


def _counts(state: State, fault: Fault) -> bool:
    """No drill outlives itself in the list, whatever its effect."""
    return fault.origin != "drill" and not state.policy.observes(fault)


def _entry(node: str, chip: int, faults: list[Fault]) -> Separation:
    windows = [fault.evidence.get(RELEASE_AFTER) for fault in faults]
    timed = [float(window) for window in windows if isinstance(window, int | float)]
    return Separation(
        node=node,
        chip=chip,
        codes=tuple(sorted({fault.code for fault in faults})),
        since=clock.seconds(max(fault.since for fault in faults)),
        release_after_s=max(timed) if len(timed) == len(windows) else None,
    )


def _grown(held: Separation, entry: Separation) -> bool:
    """Whether a listed die has moved, or is separated for more than the list says."""
    return (held.node, held.chip) != (entry.node, entry.chip) or not set(entry.codes) <= set(held.codes)


def _is_over(state: State, die: str, entry: Separation, now: Instant) -> bool:
    """Released by a person on a node that shows the die; or its rule's own window has passed without it."""
    for name, dies in state.separations.items():
        node = state.nodes.get(name)
        if node is not None and any(one.die == die for one in dies):
            record = record_of(node)
            if record is not None and released_id(die) in record.released:
                return True
            since = clock.parse(entry.since)
            if entry.release_after_s is not None and since is not None:
                return now.wall > since + entry.release_after_s
    return False
