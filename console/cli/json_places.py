"""Lines of the values in a JSON text, which the decoder forgets. Pure."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def places(text: str) -> dict[str, int]:
    """Line, from 1, of every key and list item of a valid JSON text, by its place: `FaultFrequency[0].Times`.

    >>> places('{"a": [1,\\n{"b": 2}]}')
    {'a': 1, 'a[0]': 1, 'a[1]': 2, 'a[1].b': 2}
    """
    found: dict[str, int] = {}
    outer: list[tuple[str, int | None]] = []  # place of each open value, and the next index where it is a list
    here, line, done = "", 1, 0
    key_next = False
    for token in _TOKEN.finditer(text):
        line += text.count("\n", done, token.start())
        done = token.start()
        word = token[0]
        if key_next and word[0] == '"':
            parent = outer[-1][0]
            name = json.loads(word, strict=False)
            here = f"{parent}.{name}" if parent else name
            found[here] = line
            key_next = False
            continue
        if outer and outer[-1][1] is not None and word not in "],":
            parent, index = outer.pop()
            assert index is not None
            here = f"{parent}[{index}]"
            found[here] = line
            outer.append((parent, index + 1))
        if word in "{[":
            outer.append((here, 0 if word == "[" else None))
            key_next = word == "{"
        elif word in "}]":
            outer.pop()
            key_next = False
        elif word == ",":
            key_next = outer[-1][1] is None
    return found


def line_of(found: dict[str, int], place: str) -> int:
    """Line of a place, or of the nearest around it that the text has."""
    while place not in found and place:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return found.get(place, 1)
