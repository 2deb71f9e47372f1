"""Chips that have never been seen here: only the configuration can tell that they should be.

What has been seen once is missed by name, by its own fault; this is about a card that was absent when the agent first
looked, or whose memory went with the node's disk.
"""

from __future__ import annotations

from agent.detect.book import FaultBook
from agent.detect.readings import DriverReading
from shared.model import NODE, Instant
from shared.names import CODE_CHIPS_MISSING


class Inventory:
    """Counts the polls in a row that were short of chips; so many as make a card lost make the node's count a fault."""

    def __init__(self, book: FaultBook, polls: int) -> None:
        self._book, self._polls = book, polls
        self._short = 0

    def compare(self, reading: DriverReading, known: int, now: Instant) -> None:
        """known: chips that the driver has ever listed. Only for a reading that says something of the chips."""
        missing = 0 if reading.expected is None else reading.expected - known - len(reading.passed_through)
        if missing <= 0:
            self._short = 0
            self._book.unobserved(NODE, CODE_CHIPS_MISSING, now)
            return
        self._short += 1
        if self._short >= self._polls:
            evidence = {"expected": str(reading.expected), "seen": str(known)}
            if reading.pci is not None:
                evidence["on_the_bus"] = str(len(reading.pci))
            self._book.observed(NODE, CODE_CHIPS_MISSING, now, evidence=evidence)
