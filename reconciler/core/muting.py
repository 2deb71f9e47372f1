"""How long a fault must stay before it restarts the pods of one workload: the windows its annotations ask for.

`huawei.com/schedule.filter.faultCode` and `.faultLevel` hold `NAME[:seconds],...`, 0 to 86400 s, 60 s where none are
given; full-width commas and colons count too. A code's window goes before its level's. Source: MindCluster's
annotations of an AscendJob (its PodGroup carries copies); here they count on every kind of workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from reconciler.core.units import Index, Unit
from shared.model import Fault

FILTER_CODE = "huawei.com/schedule.filter.faultCode"
FILTER_LEVEL = "huawei.com/schedule.filter.faultLevel"
DEFAULT_S = 60.0
MAX_S = 86400

_ENTRY = re.compile(r"([A-Za-z0-9_]{1,64})(?:\s*:\s*([0-9]{1,5}))?")
_FULL_WIDTH = str.maketrans({"\uff0c": ",", "\uff1a": ":"})
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Window:
    """seconds: 0 = at once. notes: what of the annotations is not followed and why, for people."""

    seconds: float
    notes: tuple[str, ...] = ()


def window_of(unit: Unit, index: Index, fault: Fault, *, usual_s: float) -> Window:
    """The window of this fault for this unit; `usual_s` where its annotations do not name the fault."""
    notes: list[str] = []
    found: float | None = None
    for key, name in ((FILTER_CODE, fault.code.upper()), (FILTER_LEVEL, fault.level.value)):
        values = _values(unit, index, key)
        if len(values) > 1:
            notes.append(f"annotation {key} has different values and is not followed")
            continue
        for text in values:
            windows, bad = parse(text)
            notes += (f"annotation {key}: {entry!r} is no NAME[:0..{MAX_S}] and is not followed" for entry in bad)
            if found is None:
                found = windows.get(name)
    return Window(usual_s if found is None else found, tuple(notes))


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Mapping[str, float], tuple[str, ...]]:
    """Seconds by name, and the entries that are none. A name that stands twice counts once, the first time."""
    windows: dict[str, float] = {}
    bad: list[str] = []
    for part in text.translate(_FULL_WIDTH).split(","):
        entry = part.strip()
        match = _ENTRY.fullmatch(entry)
        seconds = DEFAULT_S if match is None or match.group(2) is None else float(match.group(2))
        name = "" if match is None else _name(match.group(1))
        if match is None or seconds > MAX_S or name in windows:
            if entry:
                bad.append(entry[:_SHOWN])
            continue
        windows[name] = seconds
    return windows, tuple(bad)


def _name(text: str) -> str:
    """Codes are upper case as the vendor prints them; a level's name has small letters and stays as it is."""
    return text.upper() if any(char.isdigit() for char in text) else text


def _values(unit: Unit, index: Index, key: str) -> set[str]:
    places = [pod.metadata.annotations for pod in unit.pods]
    places += [owner.metadata.annotations for owner in unit.chain]
    places += [group.metadata.annotations for group in index.groups(unit)]
    return {place[key] for place in places if key in place}
