"""Compares what detection says with one `expect` entry of a detection scenario."""

from __future__ import annotations

from collections.abc import Sequence

from agent.detect.view import DetectView
from console.scenario.common import differs
from console.scenario.detection_format import Expect, ExpectedFault
from shared.model import Fault, FaultEvent


def failures(expect: Expect, view: DetectView, events: Sequence[FaultEvent], queries: int) -> list[str]:
    """One text for each key that does not hold; keys left out are not checked."""
    found: list[str] = []
    if expect.faults is not None and not _same(expect.faults, view.faults):
        found.append(
            differs(
                expect.at, "faults", [_spell(item) for item in expect.faults], [_spell(item) for item in view.faults]
            )
        )
    if expect.unknown is not None:
        wanted = {str(item.chip) for item in expect.unknown}
        actual = {str(item.chip) for item in view.unknown}
        if wanted != actual:
            found.append(differs(expect.at, "unknown", sorted(wanted), sorted(actual)))
    if expect.events is not None:
        happened = [f"{event.kind} {event.id}" for event in events]
        if expect.events != happened:
            found.append(differs(expect.at, "events", expect.events, happened))
    for subject, healthy in (expect.healthy or {}).items():
        if view.healthy.get(subject) is not healthy:
            found.append(differs(expect.at, f"healthy {subject}", healthy, view.healthy.get(subject)))
    if expect.queries is not None and expect.queries != queries:
        found.append(differs(expect.at, "queries", expect.queries, queries))
    return found


def _same(expected: Sequence[ExpectedFault], actual: Sequence[Fault]) -> bool:
    """Exactly these faults, each expected one matched by one of its own."""
    left = list(actual)
    # The most specific first: one that names a chip alone must not take the match of one that names the code too.
    for item in sorted(expected, key=lambda item: (item.code is None, item.level is None)):
        match = next((fault for fault in left if _matches(item, fault)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _matches(item: ExpectedFault, fault: Fault) -> bool:
    return item.chip == fault.chip and item.code in (None, fault.code) and item.level in (None, fault.level)


def _spell(item: ExpectedFault | Fault) -> str:
    return f"{item.code or 'any code'}@{item.chip} {item.level.value if item.level else 'any level'}"
