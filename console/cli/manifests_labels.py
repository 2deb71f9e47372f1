"""The labels and annotations that steer the warden: where each counts, which values it takes, how it is misspelled.

Places are those of the controllers: what stands in metadata.labels of an object is its own, what stands in a pod
template's metadata.labels comes to the pods. Sources: MindCluster (Volcano plugin, ascend-operator, infer-operator),
AIBrix and LeaderWorkerSet object definitions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.core.muting import FILTER_CODE, FILTER_LEVEL, MAX_S, parse
from reconciler.core.units import FAULT_RETRY_TIMES, FAULT_SCHEDULING, POD_RESCHEDULING, SUB_HEALTHY
from shared.model import FaultLevel
from shared.names import MIN_READY_ANNOTATION

METHODS = ("force", "grace", "off")
HANDED_OVER = ("external-force", "external-grace")
"""Values with a meaning for instances of MindCluster's infer-operator only."""

STRATEGIES = ("ignore", "graceExit", "forceExit")


@dataclass(frozen=True, slots=True)
class Steering:
    """One key. among: `labels` or `annotations`. on_pods: it counts on pods too, and so in their templates.

    wrong: (value, whether the infer-operator runs the object) -> what is wrong with it, or None.
    """

    key: str
    among: str
    wrong: Callable[[str, bool], str | None]
    on_pods: bool = True


def _scheduling(value: str, infer: bool) -> str | None:
    allowed = (*METHODS, *HANDED_OVER) if infer else METHODS
    if value in allowed:
        return None
    if value in HANDED_OVER:
        return f"{value} counts for instances of the infer-operator only: write force or grace"
    return f"{value!r} is none of {', '.join(allowed)} and counts as off{_meant(value, allowed)}"


def _retries(value: str, _infer: bool) -> str | None:
    if value.isascii() and value.isdecimal():
        return None
    return f"{value!r} is not a number such as 10: no crashed pod is restarted"


def _pod_level(value: str, _infer: bool) -> str | None:
    return None if value in ("on", "off") else f"{value!r} has no effect: write 'on' or leave it out"


def _strategy(value: str, _infer: bool) -> str | None:
    if value in STRATEGIES:
        return None
    return f"{value!r} is none of {', '.join(STRATEGIES)} and counts as ignore{_meant(value, STRATEGIES)}"


def _min_ready(value: str, _infer: bool) -> str | None:
    if value.isascii() and value.isdecimal():
        return None
    return f"{value!r} is not a number of instances such as 1"


def _windows(value: str, _infer: bool) -> str | None:
    windows, bad = parse(value)
    if bad:
        return f"{', '.join(bad)} is not followed: write NAME or NAME:SECONDS, 0..{MAX_S}, with commas between"
    return None if windows else "names nothing: write NAME or NAME:SECONDS"


def _level_windows(value: str, infer: bool) -> str | None:
    if (wrong := _windows(value, infer)) is not None:
        return wrong
    levels = tuple(level.value for level in FaultLevel)
    strange = [name for name in parse(value)[0] if name not in levels]
    return f"{strange[0]} is no fault level{_meant(strange[0], levels)}" if strange else None


STEERING = {
    steering.key: steering
    for steering in (
        Steering(FAULT_SCHEDULING, "labels", _scheduling),
        Steering(FAULT_RETRY_TIMES, "labels", _retries),
        Steering(POD_RESCHEDULING, "labels", _pod_level),
        Steering(SUB_HEALTHY, "labels", _strategy),
        Steering(FILTER_CODE, "annotations", _windows),
        Steering(FILTER_LEVEL, "annotations", _level_windows),
        Steering(MIN_READY_ANNOTATION, "annotations", _min_ready, on_pods=False),
    )
}


def _meant(value: str, allowed: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(value.lower(), [word.lower() for word in allowed], 1)
    return next((f"; did you mean {word}?" for word in allowed if close and word.lower() == close[0]), "")


def _plain(key: str) -> str:
    """A key without what people get wrong: case, prefix, separators."""
    return re.sub(r"[^a-z]", "", key.rpartition("/")[2].lower())


_BY_PLAIN = {_plain(key): key for key in STEERING}


def meant(key: str, *, loosely: bool) -> str | None:
    """The steering key that this one is or was meant to be; None: another key. loosely: a slip of the pen counts."""
    if key in STEERING:
        return key
    plain = _plain(key)
    if plain in _BY_PLAIN:
        return _BY_PLAIN[plain]
    close = difflib.get_close_matches(plain, _BY_PLAIN, 1, cutoff=0.87) if loosely else []
    return _BY_PLAIN[close[0]] if close else None
