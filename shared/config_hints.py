"""What a person may have meant by a key or a word that a configuration does not know.

msgspec says where the error is (`$.levels[...].taint`) and what was found there; what could stand there is read off
the struct.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from msgspec import inspect

_PLACE = re.compile(r"`(?P<path>\$[^`]*)`$")
_UNKNOWN_KEY = re.compile(r"unknown field `(?P<word>[^`]*)`")
_BAD_WORD = re.compile(r"Invalid enum value '(?P<word>[^']*)'")
_STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|\[[^\]]*\]")


def hint(error: str, kind: type) -> str:
    """What to add to msgspec's `error` about a value that should have been a `kind`; empty when there is nothing."""
    place = _PLACE.search(error)
    found = list(_at(inspect.type_info(kind), place["path"] if place else "$"))
    if key := _UNKNOWN_KEY.search(error):
        return _meant(key["word"], _keys(found), "known keys")
    if word := _BAD_WORD.search(error):
        if "`key` in" in error:
            found = [each.key_type for each in found if isinstance(each, inspect.DictType)]
        return _meant(word["word"], _words(found), "allowed", always=True)
    return ""


def _meant(word: str, known: list[str], title: str, *, always: bool = False) -> str:
    close = difflib.get_close_matches(word, known, 1)
    parts = [f"did you mean {close[0]}?"] if close else []
    if known and (always or not close):
        parts.append(f"{title}: {', '.join(known)}")
    return f"; {' '.join(parts)}" if parts else ""


def _at(root: inspect.Type, path: str) -> Iterable[inspect.Type]:
    """Every type that may stand at `path`."""
    found = list(_choices(root))
    for step in _STEP.finditer(path):
        found = [deeper for each in found for below in _below(each, step["key"]) for deeper in _choices(below)]
    return found


def _below(each: inspect.Type, key: str | None) -> Iterable[inspect.Type]:
    if isinstance(each, inspect.StructType):
        return [field.type for field in each.fields if field.encode_name == key]
    if isinstance(each, inspect.DictType):
        return [each.value_type]
    if isinstance(each, inspect.ListType | inspect.VarTupleType):
        return [each.item_type]
    return []


def _choices(each: inspect.Type) -> Iterable[inspect.Type]:
    if isinstance(each, inspect.Metadata):
        return _choices(each.type)
    if isinstance(each, inspect.UnionType):
        return [deeper for one in each.types for deeper in _choices(one)]
    return [each]


def _keys(found: Iterable[inspect.Type]) -> list[str]:
    return [field.encode_name for each in found if isinstance(each, inspect.StructType) for field in each.fields]


def _words(found: Iterable[inspect.Type]) -> list[str]:
    words: list[str] = []
    for each in found:
        if isinstance(each, inspect.LiteralType):
            words += map(str, each.values)
        if isinstance(each, inspect.EnumType):
            words += [str(member.value) for member in each.cls]
    return words
