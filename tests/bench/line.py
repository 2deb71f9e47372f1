"""The JSON lines of a bench: what was measured, how it spread, what the goal is, and on which machine."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path


def line(
    bench: str,
    unit: str,
    values: Sequence[float],
    *,
    value: float | None = None,
    goal: float | None = None,
    note: str | None = None,
) -> str:
    """One figure. `value` is the headline: the median unless told. `goal`: not above it; None where there is none.
    `met`: whether it is, None where there is no goal."""
    headline = percentile(values, 0.5) if value is None else value
    told = {
        "bench": bench,
        "unit": unit,
        "value": headline,
        "p50": percentile(values, 0.5),
        "p99": percentile(values, 0.99),
        "n": len(values),
        "goal": goal,
        "met": None if goal is None else headline <= goal,
        "machine": f"{machine()}, load {os.getloadavg()[0]:.1f}",
    }
    if note is not None:
        told["note"] = note
    return json.dumps({key: _rounded(value) for key, value in told.items()})


GROWTH_GOAL = 1.25
"""Four times the nodes may cost five times as much: caches get colder."""


def growth(bench: str, cost: Mapping[int, float]) -> str:
    """Cost of one node at the largest size to that at the smallest of the same run. cost: by number of nodes.

    The only figure that does not depend on the machine, and so the one that tells of a regression.
    """
    small, large = min(cost), max(cost)
    ratio = (cost[large] / large) / (cost[small] / small)
    said = "linear" if ratio <= GROWTH_GOAL else "NOT linear"
    return line(bench, "ratio", [ratio], goal=GROWTH_GOAL, note=f"of the cost a node, {large} nodes to {small}: {said}")


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@functools.cache
def machine() -> str:
    """Processor, how many of them this process may use, and what runs on them."""
    info = Path("/proc/cpuinfo").read_text()
    names = [text.partition(":")[2].strip() for text in info.splitlines() if text.startswith("model name")]
    cpus = len(os.sched_getaffinity(0))
    return f"{cpus} x {names[0] if names else platform.machine()}, Python {platform.python_version()}"


def _rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value
