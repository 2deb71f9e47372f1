"""What drills ask of the lab itself: its Redis stands still while a `redis-down` is asked for on one of its nodes."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

from console.lab.children import Child
from console.lab.cluster.store import Store
from shared.names import CODE_REDIS_DOWN, DRILL_ANNOTATION

LOOK_S = 0.25


async def redis_drills(store: Store, redis: Child) -> None:
    """For ever; ends by cancellation, and then Redis goes on. A request that is forgotten ends at its time."""
    stopped = False
    try:
        while True:
            wanted = any(_asks(node, time.time()) for node in store.objects("nodes"))
            if wanted != stopped:
                redis.signal(signal.SIGSTOP if wanted else signal.SIGCONT)
                stopped = wanted
            await asyncio.sleep(LOOK_S)
    finally:
        if stopped:
            redis.signal(signal.SIGCONT)


def _asks(node: dict[str, Any], now: float) -> bool:
    """A request that the reconciler has not refused says `go`."""
    text = (node["metadata"].get("annotations") or {}).get(DRILL_ANNOTATION)
    try:
        request = json.loads(text) if text else None
    except ValueError:
        return False
    if not isinstance(request, dict) or request.get("code") != CODE_REDIS_DOWN or request.get("go") is not True:
        return False
    until = request.get("until")
    return isinstance(until, int | float) and now < until
