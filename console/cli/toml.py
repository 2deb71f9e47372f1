"""Settings as TOML text: enough for our own configuration (tables, strings, numbers, booleans, flat lists)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def dump(settings: Mapping[str, Any]) -> str:
    """TOML that reads back as `settings`; keys without a value (None) are shown as comments."""
    return "\n".join(_lines(settings, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):
        yield f"\n[{'.'.join(path)}]"
    for key, value in plain.items():
        yield f"# {key} is not set" if value is None else f"{key} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*path, key))


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are written alike in both
