"""TOML files to frozen structs: unknown keys and wrong types are errors that name the file and the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared.config_hints import hint

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used. The text names the file (or source) and the key."""


def load_toml(path: Path, kind: type[T]) -> T:
    """Read `path` as `kind` (a struct with `forbid_unknown_fields`). A missing file is an error."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(f"{path}: not TOML: {exc}") from exc
    return convert(raw, kind, source=str(path))


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
