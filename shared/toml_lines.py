"""Where in a TOML file a value stands: the parser of the standard library keeps no lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_HEADER = re.compile(r"\s*\[{1,2}(?P<name>[^\[\]]+)\]{1,2}\s*(#.*)?")
_KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_.\s-]|"[^"]*"|'[^']*')+?)\s*=""")
_PART = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^."'\s]+))\s*(?:\.|$)""")

_PLACE = re.compile(r"`(?P<path>\$[^`]*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|(?P<each>\[[^\]]*\])")
_NAMED = re.compile(r"unknown field `(?P<field>[^`]*)`|Invalid enum value '(?P<word>[^']*)' - at `key` in")
_FIRST = re.compile(r"(?P<key>[A-Za-z_]\w*(?:\.\w+)*): ")

Check = Callable[[Mapping[str, Any]], str | None]
"""The error that a table gives, None for none."""


def line_of_error(text: str, raw: Mapping[str, Any], error: str, check: Check) -> int | None:
    """The line of the value that `error` is about: msgspec's, or one that begins with `table.key: `."""
    path = _path(raw, error, check)
    return _line_of(text, path) if path else None


def _path(raw: Mapping[str, Any], error: str, check: Check) -> tuple[str, ...]:
    place, named, first = _PLACE.search(error), _NAMED.search(error), _FIRST.match(error)
    found: tuple[str, ...] = ()
    here: Any = raw
    for step in _STEP.finditer(place["path"] if place else "$"):
        key = step["key"]
        if key is None:  # some entry of a table (a list's entries stand with its key)
            if not isinstance(here, Mapping):
                break
            key = next((name for name in here if check(_alone(raw, found, name)) == error), "")
        found = (*found, key)
        here = here.get(key) if isinstance(here, Mapping) else None
    if named is not None:
        return (*found, named["field"] or named["word"])
    return tuple(first["key"].split(".")) if first is not None and not found else found


def _alone(raw: Mapping[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    """The same with only one entry left in the table at `path`."""
    if not path:
        return {name: raw[name]}
    return {**raw, path[0]: _alone(raw[path[0]], path[1:], name)}


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Counted from 1: of the key itself, else of the nearest table above it; None where neither is found."""
    best, line = 0, None
    for number, full in _definitions(text):
        depth = min(len(full), len(path))
        if depth > best and full[:depth] == path[:depth]:
            best, line = depth, number
    return line


def _definitions(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    table: tuple[str, ...] = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        begun = quotes
        for mark in ('"""', "'''"):
            if line.count(mark) % 2 and quotes in ("", mark):
                quotes = "" if quotes else mark
        if begun:
            continue  # within a string of several lines
        if header := _HEADER.fullmatch(line):
            table = _parts(header["name"])
            yield number, table
        elif key := _KEY.match(line):
            yield number, (*table, *_parts(key["name"]))


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part["double"] or part["single"] or part["bare"] or "" for part in _PART.finditer(name))
