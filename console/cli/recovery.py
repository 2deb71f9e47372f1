"""A Recovery as the reconciler's API shows it, in one line."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from console.cli.output import ago
from reconciler.core.objects import FINISHED_PHASES

Item = dict[str, Any]


def is_open(item: Item) -> bool:
    return phase(item) not in FINISHED_PHASES


def phase(item: Item) -> str:
    return str(item["status"].get("phase") or "Pending")


def recovery_row(item: Item) -> tuple[object, ...]:
    """UNIT, LEVEL, PHASE, REASON, AGE (since the fault was seen), TOOK (until it was finished)."""
    spec, status = item["spec"], item["status"]
    times = status.get("times") or {}
    began = _unix(times.get("detected") or item.get("created"))
    ended = _unix(times.get("finished"))
    age = None if began is None else ago(time.time() - began)
    took = None if began is None or ended is None else f"{ended - began:.1f}s"
    return spec["unit"], spec["level"], phase(item), status.get("reason"), age, took


def _unix(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
