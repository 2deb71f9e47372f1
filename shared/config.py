"""TOML files to frozen structs: unknown keys and wrong types are errors that name the file, the line and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared.config_hints import hint
from shared.toml_lines import line_of_error

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used. The text names the file (or source) and the key."""


def load_toml(path: Path, kind: type[T]) -> T:
    """Read `path` as `kind` (a struct with `forbid_unknown_fields`). A missing file is an error."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(f"{path}: not TOML: {exc}") from exc
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as exc:
        line = line_of_error(text, raw, str(exc), lambda table: _error_of(table, kind))
        where = f"{path}: line {line}" if line is not None else str(path)
        raise ConfigError(f"{where}: {exc}{hint(str(exc), kind)}") from exc


def _error_of(raw: Mapping[str, Any], kind: type) -> str | None:
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError as exc:
        return str(exc)
    return None


def convert(raw: dict[str, Any], kind: type[T], *, source: str) -> T:
    """The same for a table that is already parsed (a scenario's override, an environment)."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{source}: {exc}{hint(str(exc), kind)}") from exc


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """`base` with `override` laid over it, table by table; lists and scalars are replaced whole."""
    result = dict(base)
    for key, value in override.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
