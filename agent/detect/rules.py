"""MindCluster's configuration files, read one entry at a time and laid over the built-in rules code by code.

A file names what it wants changed and nothing else: a code it does not name keeps its built-in level and rules. An
entry that cannot be used is skipped alone, with a complaint that names it; a file that is no JSON changes nothing.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent.detect.complaints import Complaint, UnusableFile
from agent.detect.customization import time_rules
from agent.detect.duration import DurationRule
from agent.detect.fault_levels import chip_levels, switch_levels
from agent.detect.frequency import FrequencyRule
from shared.catalog import Catalogue
from shared.model import FaultLevel

LEVELS_FILE = "faultCode.json"
SWITCH_FILE = "SwitchFaultCode.json"
CUSTOMIZATION_FILE = "faultCustomization.json"
FILES = (LEVELS_FILE, SWITCH_FILE, CUSTOMIZATION_FILE)
NODED_FILE = "NodeDConfiguration.json"
"""Of MindCluster too, and not read: it grades alarms of the BMC, which the warden does not ask."""

MAX_COMPLAINTS = 100
"""Of one file that are told one by one: a ConfigMap has room for a quarter of a million, and each is logged."""
MAX_CHARS = 300

Kind = Literal["level", "frequency", "duration"]
KINDS: tuple[Kind, ...] = ("level", "frequency", "duration")


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


class Parsed(msgspec.Struct, frozen=True):
    """One file. keys: where in it the rule of a kind for a code stands. complaints: what was not used."""

    rules: Rules = Rules()
    keys: Mapping[tuple[Kind, str], str] = {}
    complaints: tuple[Complaint, ...] = ()


@functools.cache
def builtin() -> Rules:
    """The time rules that ship with the warden."""
    raw = tomllib.loads(Path(__file__).with_name("debounce.toml").read_text(encoding="utf-8"))
    parsed = _parsed("debounce.toml", raw, None)
    if parsed.complaints:
        raise UnusableFile(str(parsed.complaints[0]))
    return parsed.rules


def parse(name: str, text: str, catalogue: Catalogue) -> Parsed:
    """The rules of one file and a complaint for each entry that was skipped.

    Raises UnusableFile for a file that is no JSON object, or a name that is none of FILES.
    """
    if name == NODED_FILE:
        raise UnusableFile(f"{name}: not read: it grades alarms of the BMC, which the warden does not ask")
    if name not in FILES:
        raise UnusableFile(f"{name}: not a file the warden reads, which are {', '.join(FILES)}")
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            twice.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return content

    try:
        raw = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as exc:
        raise UnusableFile(f"{name}: not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise UnusableFile(f"{name}: must be a JSON object, is {type(raw).__name__}")
    return _parsed(name, raw, catalogue, twice)


def _parsed(name: str, raw: dict[str, Any], catalogue: Catalogue | None, twice: Sequence[str] = ()) -> Parsed:
    """catalogue: None for the rules that ship, which are time rules alone. twice: keys that stood so in one object."""
    complaints: list[Complaint] = []
    untold = 0

    def tell(key: str, why: str) -> None:
        nonlocal untold
        if len(complaints) < MAX_COMPLAINTS:
            complaints.append(Complaint(name, _shown(key), why if len(why) <= MAX_CHARS else f"{why[:MAX_CHARS]}..."))
        else:
            untold += 1

    for key in twice:
        tell(key, "stands twice in one object; the last one counts")
    if catalogue is not None and name in (LEVELS_FILE, SWITCH_FILE):
        levels = chip_levels(raw, catalogue, tell) if name == LEVELS_FILE else switch_levels(raw, tell)
        rules = Rules(levels={code: level for code, (level, _) in levels.items()})
        keys: dict[tuple[Kind, str], str] = {("level", code): key for code, (_, key) in levels.items()}
    else:
        frequency, duration = time_rules(raw, tell)
        rules = Rules(
            frequency={code: rule for code, (rule, _) in frequency.items()},
            duration={code: rule for code, (rule, _) in duration.items()},
        )
        keys = {("frequency", code): key for code, (_, key) in frequency.items()}
        keys |= {("duration", code): key for code, (_, key) in duration.items()}
    if untold:
        complaints.append(
            Complaint(name, "...", f"{untold} more entries are not used; what is wrong with them is not told")
        )
    return Parsed(rules, keys, tuple(complaints))


def _shown(key: str) -> str:
    """A key as it can be logged and told: JSON allows any character in one, half of a pair of surrogates too, and any
    number of them."""
    cut = key if len(key) <= MAX_CHARS else f"{key[:MAX_CHARS]}..."
    return cut if cut.isprintable() else ascii(cut)
