"""The fault catalogue: what each known code means by default. Data in *.toml beside this file, checked at load.

A new code is one new row. What a cluster's own configuration changes is laid over it elsewhere, code by code; here is
only what ships. Source and date of the vendor's rows stand at the head of codes.toml.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from shared.model import FaultLevel

Kind = Literal["chip", "chip-network", "node", "switch"]

_CODE = re.compile(r"[0-9A-F]{8,9}|NW-[A-Z0-9-]+")
_SWITCH_CODE = re.compile(r"\[0x[0-9a-f]{8},(\d+|na),(cpu|npu|L2|na),na\]")
_DATA = Path(__file__).parent


class CatalogueError(ValueError):
    """The shipped data cannot be used; the text names the file and the row."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One code: `level` is the vendor's default, `kind` says which subject it concerns, `name` is None where no
    public document names the code."""

    code: str
    level: FaultLevel
    kind: Kind
    name: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[Row]


class Catalogue:
    """All known codes. Immutable; lookups are by the exact upper-case string."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Raises CatalogueError for a malformed code, a code that stands twice, or no rows at all."""
        self._rows: dict[str, Row] = {}
        for row in rows:
            form = _SWITCH_CODE if row.kind == "switch" else _CODE
            if not form.fullmatch(row.code):
                raise CatalogueError(f"code {row.code!r} is no {row.kind} code")
            if row.code in self._rows:
                raise CatalogueError(f"code {row.code!r} stands twice")
            self._rows[row.code] = row
        if not self._rows:
            raise CatalogueError("no rows: without a catalogue every fault would be an unknown one")

    def lookup(self, code: str) -> Row | None:
        return self._rows.get(code)

    def is_network(self, code: str) -> bool:
        """Whether the code concerns a chip's network port: a row says so, or its class is 2 (nine digits, 2 first)."""
        row = self._rows.get(code)
        return row.kind == "chip-network" if row else len(code) == 9 and code.startswith("2")

    def unknown_level(self, code: str, *, severity: int | None, health: int | None) -> FaultLevel:
        """The level of a code that no row names.

        severity: 0 hint, 1 minor, 2 major, 3 critical, as the last event of this code said; None when none was heard.
        health: the chip's health in the very reading that lists the code, the highest severity of all its active
        events; None when unknown. Without either the chip keeps its pods and gets no new ones: guessing "harmless"
        would hide a fault, guessing "broken" would kill healthy work.
        """
        if self.is_network(code):
            return FaultLevel.PRE_SEPARATE_NPU
        if severity is not None:
            return FaultLevel.NOT_HANDLE if severity <= 1 else FaultLevel.SEPARATE_NPU
        return FaultLevel.NOT_HANDLE if health is not None and health <= 1 else FaultLevel.PRE_SEPARATE_NPU

    def rows(self) -> Mapping[str, Row]:
        return self._rows


def parse(text: str, *, source: str) -> list[Row]:
    """The rows of one catalogue file. Raises CatalogueError that names `source` and the place."""
    try:
        rows = msgspec.convert(tomllib.loads(text), _File).rows
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise CatalogueError(f"{source}: {exc}") from exc
    if not rows:
        raise CatalogueError(f"{source}: no rows")
    return rows


@functools.cache
def load() -> Catalogue:
    """The catalogue that ships with the warden: every *.toml file of this package, read once."""
    files = sorted(_DATA.glob("*.toml"))
    return Catalogue(row for file in files for row in parse(file.read_text(encoding="utf-8"), source=file.name))
