"""What both kinds of scenario files share: strict loading, the result of a run, and how a difference is told."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

T = TypeVar("T")

START_WALL_S = 1767229200.0
"""Second 0 of every scenario: 2026-01-01T01:00:00Z."""

LONGEST_S = 604_800.0
"""No time of a scenario is later (7 days, a minute of work): what is meant in milliseconds would run for hours."""


class ScenarioError(ValueError):
    """The file cannot be run; the text says which key is wrong and why."""


class Result(msgspec.Struct, frozen=True):
    """One scenario run. failures: one text for each expectation that did not hold, expected against actual."""

    path: Path
    name: str
    ok: bool
    failures: list[str] = []


class _StrictLoader(yaml.SafeLoader):
    """A key that stands twice is an error, not the last one wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise ScenarioError(f"line {key_node.start_mark.line + 1}: key {key!r} stands twice")
            seen.add(key if isinstance(key, Hashable) else str(key))
        return super().construct_mapping(node, deep=deep)


def load(path: Path) -> dict[str, Any]:
    """The file as a mapping. Raises ScenarioError."""
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except OSError as exc:
        raise ScenarioError(f"cannot be read: {exc.strerror or exc}") from exc
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as exc:
        raise ScenarioError(f"not YAML: {exc}") from exc
    if not isinstance(raw, dict):
        raise ScenarioError("must be a mapping with the key `kind`")
    return raw


def convert(raw: Any, kind: type[T], *, where: str = "$") -> T:
    """`raw` as `kind`. Raises ScenarioError with the key's path (`$` is the file) for unknown keys and wrong types."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as exc:
        text = str(exc).replace("`$", f"`{where}")
        # What YAML takes for a number or a boolean without quotes is mostly a fault code or an "on".
        unquoted = any(f"Expected `str`, got `{name}`" in text for name in ("int", "float", "bool"))
        raise ScenarioError(f"{text}{'; quote it' if unquoted else ''}") from exc


def differs(at: float, key: str, expected: Any, actual: Any) -> str:
    return f"at {at:g}: {key}: expected {show(expected)}, got {show(actual)}"


def show(value: Any) -> str:
    """A value as the scenario files write it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)
