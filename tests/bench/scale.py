"""The size of a run: `BENCH_SCALE=0.05` tries the benches of large clusters on a small one; figures are of scale 1."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def scaled(number: int, least: int = 4) -> int:
    """An even number, so that pairs stay pairs."""
    return max(least, round(number * SCALE / 2) * 2)
