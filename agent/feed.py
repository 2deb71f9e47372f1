"""Hands what a probe has seen to detection, which keeps one entry for each kind of reading."""

from __future__ import annotations

from agent.detect.detector import Detector
from agent.probe import Observation
from shared.model import Instant


def feed(detector: Detector, probe: str, seen: Observation, at: Instant) -> None:
    if seen.driver is not None:
        detector.driver(seen.driver, at)
    if seen.links is not None:
        detector.links(seen.links, at, probe=probe)
    if seen.events is not None:
        detector.events(seen.events, at)
    if seen.chips is not None:
        detector.chips(seen.chips, at, probe=probe)
    if seen.node is not None:
        detector.node(seen.node, at, probe=probe)
