"""The configuration files in force, laid over what ships: the rules that result, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.detect import rules
from agent.detect.complaints import WHOLE, Complaint, UnusableFile
from agent.detect.rules import KINDS, Kind, Parsed, Rules
from shared.catalog import Catalogue

SHIPPED_FILE = "built in"
BY_SEVERITY = "no row of the catalogue: by the severity of its events, else by the chip's health"


class Override(msgspec.Struct, frozen=True):
    """One rule in force. file and key: where it stands. builtin: what ships for the code, None where nothing does."""

    code: str
    rule: Kind
    value: Any
    builtin: Any
    file: str
    key: str


Read = Parsed | UnusableFile | None
"""What has become of a file: its content, why it cannot be used, or None where it is gone."""


class Overlay:
    """`parse` files as they change and `take` what they say. One that cannot be read keeps its last good content."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._files: dict[str, Parsed] = {}
        self._unusable: dict[str, Complaint] = {}

    def parse(self, files: Mapping[str, str | None]) -> dict[str, Read]:
        """What the given files say (None: the file is gone). Changes nothing, so it may run in a thread: a ConfigMap
        has room for 90,000 codes, which take a second."""
        read: dict[str, Read] = {}
        for name, text in files.items():
            try:
                read[name] = None if text is None else rules.parse(name, text, self._catalogue)
            except UnusableFile as exc:
                read[name] = exc
        return read

    def take(self, files: Mapping[str, Read]) -> list[Complaint]:
        """The new content of the given files. Returns what is not used of them."""
        new: list[Complaint] = []
        for name, read in files.items():
            self._unusable.pop(name, None)
            if read is None:
                self._files.pop(name, None)
            elif isinstance(read, UnusableFile):
                instead = "its last good content stays" if name in self._files else "what ships is"
                why = f"{str(read).removeprefix(f'{name}: ')}; {instead} in force"
                self._unusable[name] = Complaint(name, WHOLE, why)
                new.append(self._unusable[name])
            else:
                self._files[name] = read
                new += read.complaints
        return new

    @property
    def rules(self) -> Rules:
        merged = rules.builtin()
        for parsed in self._files.values():
            merged = parsed.rules.over(merged)
        return merged

    @property
    def files(self) -> frozenset[str]:
        """Names of the files that are there, usable or not."""
        return frozenset(self._files.keys() | self._unusable.keys())

    @property
    def complaints(self) -> list[Complaint]:
        """Everything in the present files that is not used."""
        kept = [complaint for name, parsed in self._files.items() for complaint in parsed.complaints]
        return [*self._unusable.values(), *kept]

    def overrides(self) -> list[Override]:
        """Each rule of the files that says something else than what ships, by file and place."""
        return [
            Override(code, kind, value, shipped, name, key)
            for name, parsed in self._files.items()
            for (kind, code), key in parsed.keys.items()
            if (value := _value(parsed.rules, kind, code)) != (shipped := self._shipped(kind, code))
        ]

    def of_code(self, code: str, severity: int | None) -> list[Override]:
        """Every rule in force for the code, what ships too. severity: of its last event, if one was heard."""
        merged, found = self.rules, []
        for kind in KINDS:
            value, shipped = _value(merged, kind, code), self._shipped(kind, code)
            file, key = SHIPPED_FILE, ""
            for name, parsed in self._files.items():  # a later one goes before, as in `rules`
                if (kind, code) in parsed.keys:
                    file, key = name, parsed.keys[kind, code]
            if kind == "level" and value is None:
                value = shipped
            if kind == "level" and value is None:
                value, key = self._catalogue.unknown_level(code, severity=severity, health=None), BY_SEVERITY
            if value is not None:
                found.append(Override(code, kind, value, shipped, file, key))
        return found

    def _shipped(self, kind: Kind, code: str) -> Any:
        if kind == "level":
            row = self._catalogue.lookup(code)
            return row.level if row else None
        return _value(rules.builtin(), kind, code)


def _value(of: Rules, kind: Kind, code: str) -> Any:
    match kind:
        case "level":
            return of.levels.get(code)
        case "frequency":
            return of.frequency.get(code)
        case "duration":
            return of.duration.get(code)
