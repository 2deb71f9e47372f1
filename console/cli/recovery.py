"""A Recovery as the reconciler's API shows it: in one line, and as the story of what happened when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from console.cli.output import ago
from reconciler.core.recovery import FINISHED_PHASES, Times

Item = dict[str, Any]

RECOVERY_COLUMNS = ("UNIT", "LEVEL", "PHASE", "REASON", "AGE", "TOOK", "CAUSE")


def is_open(item: Item) -> bool:
    return phase(item) not in FINISHED_PHASES


def phase(item: Item) -> str:
    return str(item["status"].get("phase") or "Pending")


def recovery_row(item: Item) -> tuple[object, ...]:
    """RECOVERY_COLUMNS: AGE counts since the fault was seen, TOOK until it was finished."""
    spec, status = item["spec"], item["status"]
    times = status.get("times") or {}
    began = unix(times.get("detected") or item.get("created"))
    ended = unix(times.get("finished"))
    age = None if began is None else ago(time.time() - began)
    took = None if began is None or ended is None else f"{ended - began:.1f}s"
    cause = f"drill: {_cause(item)}" if _of_drill(item) else _cause(item)
    return spec["unit"], spec["level"], phase(item), status.get("reason"), age, took, cause


def recovery_story(item: Item) -> Iterator[str]:
    """What restarts, why, how far it is, when each step happened, and which pods came for which."""
    spec, status = item["spec"], item["status"]
    yield f"{spec['unit']}: {spec['level']} recovery {item['name']}, {spec['method']}"
    yield f"  cause   {spec['cause'].get('kind', '')}: {_cause(item) or 'not stated'}"
    if _of_drill(item):
        yield "  drill   the fault was injected, nothing is broken"
    why = ": ".join(text for text in (status.get("reason"), status.get("message")) if text)
    yield f"  phase   {phase(item)}{f' ({why})' if why else ''}"
    yield f"  times   {_timeline(status.get('times') or {})}"
    for number, text in enumerate(_pods(item)):
        yield f"  {'' if number else 'pods':<7} {text}"


def _of_drill(item: Item) -> bool:
    return bool(item["spec"].get("origin") == "drill")


def _cause(item: Item) -> str:
    cause = item["spec"]["cause"]
    return ", ".join(cause.get("faults") or cause.get("nodes") or ())


def _timeline(times: dict[str, str]) -> str:
    """The first time as it is, the others in seconds after it."""
    known = [(name, text) for name in Times.__struct_fields__ if (text := times.get(name))]
    if not known:
        return "nothing yet"
    (first, began), *later = known
    start = unix(began)
    parts = [f"{first} {began}"]
    for name, text in later:
        at = unix(text)
        parts.append(f"{name} {text}" if at is None or start is None else f"{name} {at - start:+.1f}s")
    return ", ".join(parts)


def _pods(item: Item) -> Iterator[str]:
    """Old -> new: by name where the name returns, else one after the other."""
    old, new = list(item["spec"].get("targets") or ()), list(item["status"].get("replacements") or ())
    returned = {pod["pod"] for pod in old} & {pod["pod"] for pod in new}
    by_name = {pod["pod"]: pod for pod in new if pod["pod"] in returned}
    others = iter([pod for pod in new if pod["pod"] not in returned])
    for pod in old:
        follower = by_name.get(pod["pod"]) or next(others, None)
        yield f"{_place(pod)} -> {_place(follower) if follower else 'none yet' if is_open(item) else 'none'}"
    for pod in others:
        yield f"none -> {_place(pod)}"


def _place(pod: Item) -> str:
    return f"{pod['pod']} on {pod.get('node') or 'no node'}"


def unix(text: str | None) -> float | None:
    """RFC 3339 to Unix seconds; None for None and for what is no time."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
