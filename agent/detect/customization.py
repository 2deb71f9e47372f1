"""`faultCustomization.json`: the frequency and duration rules of single codes. The first valid entry of a code counts.

Keys and limits: MindCluster, Ascend device plugin. GraceTolerance times MindCluster's own chip resets; the warden
resets no chip: accepted, and without effect here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.detect.codes import canonical, is_code
from agent.detect.duration import DurationRule
from agent.detect.fault_levels import Tell
from agent.detect.frequency import FrequencyRule
from shared.model import FaultLevel

KEYS = {"GraceTolerance", "FaultFrequency", "FaultDuration"}
_LIMITS = {
    "TimeWindow": (60, 864_000),
    "Times": (1, 100),
    "ReleaseTimeWindow": (60, 1 << 32),
    "FaultTimeout": (0, 600),
    "RecoverTimeout": (0, 86_400),
}
"""Seconds, except Times. ReleaseTimeWindow may be missing for ManuallySeparateNPU alone: an operator releases it."""
_FREQUENCY_KEYS = frozenset({"EventId", "TimeWindow", "Times", "FaultHandling", "ReleaseTimeWindow"})
_DURATION_KEYS = frozenset({"EventId", "FaultTimeout", "RecoverTimeout", "FaultHandling"})


def time_rules(
    raw: dict[str, Any], tell: Tell
) -> tuple[dict[str, tuple[FrequencyRule, str]], dict[str, tuple[DurationRule, str]]]:
    """Code -> rule and key, of both kinds."""
    frequency: dict[str, tuple[FrequencyRule, str]] = {}
    duration: dict[str, tuple[DurationRule, str]] = {}
    for key in raw.keys() - KEYS:
        tell(key, "unknown key, ignored")
    for code, key, entry in _entries(raw, "FaultFrequency", _FREQUENCY_KEYS, tell):
        frequency[code] = (
            FrequencyRule(
                window_s=entry["TimeWindow"],
                times=entry["Times"],
                level=FaultLevel(entry["FaultHandling"]),
                release_s=entry.get("ReleaseTimeWindow"),
            ),
            key,
        )
    for code, key, entry in _entries(raw, "FaultDuration", _DURATION_KEYS, tell):
        duration[code] = (
            DurationRule(
                fault_timeout_s=entry["FaultTimeout"],
                recover_timeout_s=entry["RecoverTimeout"],
                level=FaultLevel(entry["FaultHandling"]),
            ),
            key,
        )
    return frequency, duration


def _entries(
    raw: dict[str, Any], key: str, keys: frozenset[str], tell: Tell
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(canonical code, key, entry) of each code's first usable entry; the rest becomes complaints."""
    entries = raw.get(key, [])
    if not isinstance(entries, list):
        tell(key, "must be a list, ignored")
        return
    seen: dict[str, str] = {}
    for number, entry in enumerate(entries):
        place = f"{key}[{number}]"
        if not isinstance(entry, dict):
            tell(place, "must be an object, skipped")
            continue
        if problem := _problem(entry, keys):
            name, why = problem
            tell(f"{place}.{name}", f"{why}; the entry is skipped")
            continue
        for name in entry.keys() - keys:
            tell(f"{place}.{name}", "unknown key, ignored")
        for at, code in enumerate(entry["EventId"]):
            if not is_code(code):
                tell(f"{place}.EventId[{at}]", f"{code!r} is no fault code, skipped")
            elif (first := seen.setdefault(canonical(code), place)) != place:
                tell(f"{place}.EventId[{at}]", f"{code} has a rule in {first} already, which counts; skipped")
            else:
                yield canonical(code), place, entry


def _problem(entry: dict[str, Any], keys: frozenset[str]) -> tuple[str, str] | None:
    """Which key keeps an entry from being used, and why; None when it can be."""
    if not isinstance(entry.get("EventId"), list) or not entry["EventId"]:
        return "EventId", "must be a list of at least one code"
    handling = entry.get("FaultHandling")
    if handling not in [level.value for level in FaultLevel]:
        return "FaultHandling", f"{handling!r} is no level"
    manual = handling == FaultLevel.MANUALLY_SEPARATE_NPU.value
    if manual and keys is _DURATION_KEYS:
        return "FaultHandling", "a duration cannot lead to ManuallySeparateNPU"
    for key, (low, high) in _LIMITS.items():
        value = entry.get(key)
        if key not in keys or (key == "ReleaseTimeWindow" and manual and value is None):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            return key, f"{value!r} is not within {low}..{high}"
    return None
