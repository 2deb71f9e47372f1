"""MindCluster's configuration files, read one entry at a time and laid over the built-in rules code by code.

A file names what it wants changed and nothing else: a code it does not name keeps its built-in level and rules. An
entry that cannot be used is skipped alone, with a complaint that names it; a file that is no JSON changes nothing.
Formats, keys and limits: MindCluster `faultCode.json` and `faultCustomization.json` (Ascend device plugin).
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.detect.codes import canonical, is_code
from agent.detect.duration import DurationRule
from agent.detect.frequency import FrequencyRule
from shared.catalog import Catalogue
from shared.model import FaultLevel

LEVELS_FILE = "faultCode.json"
CUSTOMIZATION_FILE = "faultCustomization.json"

_LEVEL_OF_KEY = {
    "NotHandleFaultCodes": FaultLevel.NOT_HANDLE,
    "SubHealthFaultCodes": FaultLevel.SUB_HEALTH,
    "RestartRequestCodes": FaultLevel.RESTART_REQUEST,
    "RestartBusinessCodes": FaultLevel.RESTART_BUSINESS,
    "FreeRestartNPUCodes": FaultLevel.FREE_RESTART_NPU,
    "RestartNPUCodes": FaultLevel.RESTART_NPU,
    "PreSeparateNPUCodes": FaultLevel.PRE_SEPARATE_NPU,
    "SeparateNPUCodes": FaultLevel.SEPARATE_NPU,
    "NotHandleFaultNetworkCodes": FaultLevel.NOT_HANDLE,
    "SubHealthFaultNetworkCodes": FaultLevel.SUB_HEALTH,
    "PreSeparateNPUNetworkCodes": FaultLevel.PRE_SEPARATE_NPU,
    "SeparateNPUNetworkCodes": FaultLevel.SEPARATE_NPU,
}
_NETWORK_LEVELS = frozenset(
    {FaultLevel.NOT_HANDLE, FaultLevel.SUB_HEALTH, FaultLevel.PRE_SEPARATE_NPU, FaultLevel.SEPARATE_NPU}
)
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
_CUSTOMIZATION_KEYS = {"GraceTolerance", "FaultFrequency", "FaultDuration"}
"""GraceTolerance times MindCluster's own chip resets. The warden resets no chip: accepted, and without effect here."""


class Rules(msgspec.Struct, frozen=True):
    """What is laid over the catalogue: levels of single codes, and the two kinds of time rules by code."""

    levels: Mapping[str, FaultLevel] = {}
    frequency: Mapping[str, FrequencyRule] = {}
    duration: Mapping[str, DurationRule] = {}

    def over(self, base: Rules) -> Rules:
        """These rules where they name a code, `base` for the rest."""
        return Rules(
            levels={**base.levels, **self.levels},
            frequency={**base.frequency, **self.frequency},
            duration={**base.duration, **self.duration},
        )


class UnusableFile(ValueError):
    """The file as a whole cannot be read; the text says where."""


@functools.cache
def builtin() -> Rules:
    """The time rules that ship with the warden."""
    raw = tomllib.loads(Path(__file__).with_name("debounce.toml").read_text(encoding="utf-8"))
    rules, complaints = _customization(raw)
    if complaints:
        raise UnusableFile(f"debounce.toml: {complaints[0]}")
    return rules


def parse(name: str, text: str, catalogue: Catalogue) -> tuple[Rules, list[str]]:
    """The rules of one file and a complaint for each entry that was skipped.

    Raises UnusableFile for a file that is no JSON object, or a name that is none of the two.
    """
    if name not in (LEVELS_FILE, CUSTOMIZATION_FILE):
        raise UnusableFile(f"{name}: not a file the warden reads, which are {LEVELS_FILE} and {CUSTOMIZATION_FILE}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnusableFile(f"{name}: not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise UnusableFile(f"{name}: must be a JSON object, is {type(raw).__name__}")
    rules, complaints = _levels(raw, catalogue) if name == LEVELS_FILE else _customization(raw)
    return rules, [f"{name}: {complaint}" for complaint in complaints]


def _levels(raw: dict[str, Any], catalogue: Catalogue) -> tuple[Rules, list[str]]:
    levels: dict[str, FaultLevel] = {}
    complaints: list[str] = []
    for key, codes in raw.items():
        level = _LEVEL_OF_KEY.get(key)
        if level is None:
            complaints.append(f"{key}: unknown list, skipped; known are {', '.join(_LEVEL_OF_KEY)}")
        elif not isinstance(codes, list):
            complaints.append(f"{key}: must be a list of codes, skipped")
        else:
            for place, code in enumerate(codes):
                if not is_code(code):
                    complaints.append(f"{key}[{place}]: {code!r} is no fault code, skipped")
                elif catalogue.is_network(canonical(code)) and level not in _NETWORK_LEVELS:
                    complaints.append(
                        f"{key}[{place}]: {code} concerns the chip's network, where {level.value} means nothing; "
                        "skipped, it keeps its level"
                    )
                else:
                    # In two lists: the more serious one counts, as in MindCluster.
                    levels[canonical(code)] = max(level, levels.get(canonical(code), level))
    return Rules(levels=levels), complaints


def _customization(raw: dict[str, Any]) -> tuple[Rules, list[str]]:
    frequency: dict[str, FrequencyRule] = {}
    duration: dict[str, DurationRule] = {}
    complaints = [f"{key}: unknown key, ignored" for key in raw if key not in _CUSTOMIZATION_KEYS]
    for codes, entry in _entries(raw, "FaultFrequency", _FREQUENCY_KEYS, complaints):
        rule = FrequencyRule(
            window_s=entry["TimeWindow"],
            times=entry["Times"],
            level=FaultLevel(entry["FaultHandling"]),
            release_s=entry.get("ReleaseTimeWindow"),
        )
        for code in codes:
            frequency.setdefault(code, rule)  # the first valid entry of a code counts
    for codes, entry in _entries(raw, "FaultDuration", _DURATION_KEYS, complaints):
        limit = DurationRule(
            fault_timeout_s=entry["FaultTimeout"],
            recover_timeout_s=entry["RecoverTimeout"],
            level=FaultLevel(entry["FaultHandling"]),
        )
        for code in codes:
            duration.setdefault(code, limit)
    return Rules(frequency=frequency, duration=duration), complaints


def _entries(
    raw: dict[str, Any], key: str, keys: frozenset[str], complaints: list[str]
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """(canonical codes, entry) for each usable entry of a list of rules; what is not usable becomes a complaint."""
    entries = raw.get(key, [])
    if not isinstance(entries, list):
        complaints.append(f"{key}: must be a list, ignored")
        return
    for number, entry in enumerate(entries):
        place = f"{key}[{number}]"
        problem = _problem(entry, keys) if isinstance(entry, dict) else "must be an object"
        if problem:
            complaints.append(f"{place}: {problem}; the entry is skipped")
            continue
        complaints += [f"{place}: unknown key {name}, ignored" for name in entry if name not in keys]
        complaints += [
            f"{place}.EventId: {code!r} is no fault code, skipped" for code in entry["EventId"] if not is_code(code)
        ]
        yield [canonical(code) for code in entry["EventId"] if is_code(code)], entry


def _problem(entry: dict[str, Any], keys: frozenset[str]) -> str | None:
    """Why an entry cannot be used; None when it can."""
    if not isinstance(entry.get("EventId"), list) or not entry["EventId"]:
        return "EventId: must be a list of at least one code"
    handling = entry.get("FaultHandling")
    if handling not in [level.value for level in FaultLevel]:
        return f"FaultHandling: {handling!r} is no level"
    manual = handling == FaultLevel.MANUALLY_SEPARATE_NPU.value
    if manual and keys is _DURATION_KEYS:
        return "FaultHandling: a duration cannot lead to ManuallySeparateNPU"
    for key, (low, high) in _LIMITS.items():
        value = entry.get(key)
        if key not in keys or (key == "ReleaseTimeWindow" and manual and value is None):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            return f"{key}: {value!r} is not within {low}..{high}"
    return None
