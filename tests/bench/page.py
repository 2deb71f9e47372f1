"""How long a person waits for the page: 10,000 nodes x 8 chips, 100 of them with a fault, in headless Chromium.

From the start of the navigation to the end of the first painting of the fleet map, by the browser's own clock: files,
the first frame made from scratch, its transfer, the drawing. Browser and replica share the machine; the replica is a
process of its own that does nothing else. Every run has a fresh profile, and so an empty cache.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.line import line
from tests.page.chromium import CHROMIUM, chromium, opened

NODES, BROKEN, RUNS = 10_000, 100, 5
GOAL_S = 2.0
BETWEEN_S = 1.0
"""The replica forgets its frames meanwhile, since nobody watches."""

_DRAWN = "() => performance.getEntriesByName('fleet drawn').find((mark) => mark.detail > 0)?.startTime"


def run() -> Iterator[str]:
    if CHROMIUM is None:
        raise RuntimeError("no chromium on this machine; scripts/bootstrap.sh all installs it")
    argv = [sys.executable, "-m", "tests.page.serve", str(NODES), str(BROKEN)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as replica:
        try:
            assert replica.stdout is not None
            url = replica.stdout.readline().strip()
            values = asyncio.run(_renders(url))
        finally:
            replica.terminate()
    yield line("page", "s", values, goal=GOAL_S, note=f"first render, {NODES} nodes x 8 chips, {BROKEN} with a fault")


async def _renders(url: str) -> list[float]:
    found: list[float] = []
    async with chromium() as browser:
        for _ in range(RUNS):
            async with opened(browser, url) as seen:
                found.append(float(await seen.until("the fleet is drawn", _DRAWN)) / 1000)
            await asyncio.sleep(BETWEEN_S)
    return found
