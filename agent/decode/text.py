"""Captured text as lines, and the words in them. Pure.

A capture may stop anywhere. A last line without its line end may be a part of a line, and a part of a number is a wrong
number: such a line is used only where its form shows that it is whole (`UP`, `200000 Mb/s`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_WHOLE = re.compile(r"[0-9]{1,20}")
_REAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NOTHING = frozenset({"", "NA", "N/A", "-", "not supported", "get failed"})
"""What the tools print when they have no value."""

MAX_U64 = 2**64 - 1


class ParseError(Exception):
    """The text is not what the tool prints; says what was looked for."""


@dataclass(frozen=True, slots=True)
class Capture:
    """What one call of a tool printed, without comments. `tail`: a last line that may be cut, else empty."""

    lines: tuple[str, ...]
    tail: str = ""


def read(text: str, ends: re.Pattern[str] | None = None) -> Capture:
    """Its lines; those that start with # are comments. `ends`: how a whole last line looks without its line end."""
    *lines, tail = (line.rstrip() for line in text.lstrip("\ufeff").split("\n"))
    if tail.startswith("#"):
        tail = ""
    if tail and ends is not None and ends.search(tail):
        lines.append(tail)
        tail = ""
    return Capture(tuple(line for line in lines if not line.startswith("#")), tail)


def pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """`key : value`; the key is empty where a value goes on in the next line."""
    for line in lines:
        key, separator, value = line.partition(" :")
        if separator:
            yield key.strip(), value.strip()


def once(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pairs by key. Raises ParseError for a key that is there twice: the text is of several calls."""
    told: dict[str, str] = {}
    for key, value in found:
        if key and key in told:
            raise ParseError(f"{key!r} is there twice: decode the output of one call at a time")
        told[key] = value
    return told


def cells(line: str) -> list[str]:
    """The cells of a `| a | b |` row; widths differ by version and board, so only the bars count."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def known(word: str | None) -> str | None:
    """The word, or None where the tool had no value."""
    return None if word is None or word in _NOTHING else word


def whole(word: str | None) -> int | None:
    """An unsigned number of up to 64 bits."""
    if word is None or not _WHOLE.fullmatch(word):
        return None
    value = int(word)
    return value if value <= MAX_U64 else None


def real(word: str | None) -> float | None:
    return float(word) if word is not None and _REAL.fullmatch(word) else None


def quoted(lines: Iterable[str]) -> str:
    """The first line, for an error message."""
    return repr(next((line.strip() for line in lines if line.strip()), "")[:80])
