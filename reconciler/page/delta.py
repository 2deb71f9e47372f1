"""What the page shows at one moment, as tables by key, and what changes an older moment into a newer one.

Pure. A row is compared, never looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from reconciler.page.rows import Now

Table = Mapping[str, Any]


class Frame(msgspec.Struct, frozen=True):
    """All tables, each by the key of its rows."""

    now: Now
    tables: dict[str, Table]


class Change(msgspec.Struct, frozen=True):
    """What a table needs to become the newer one."""

    set: dict[str, Any]
    gone: list[str]


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """From one frame to a newer one. now: None where nothing of it has changed; a table that has not is left out."""

    now: Now | None = None
    tables: dict[str, Change] = {}


def delta(old: Frame | None, new: Frame) -> Delta:
    """What changes `old` into `new`; from None: all of it."""
    before: Mapping[str, Table] = old.tables if old else {}
    changes = {name: _change(before.get(name, {}), table) for name, table in new.tables.items()}
    return Delta(
        now=new.now if old is None or old.now != new.now else None,
        tables={name: change for name, change in changes.items() if change.set or change.gone or old is None},
    )


def _change(old: Table, new: Table) -> Change:
    return Change(
        set={key: row for key, row in new.items() if key not in old or (old[key] is not row and old[key] != row)},
        gone=_missing(old, new),
    )


def _missing(old: Iterable[str], new: Table) -> list[str]:
    return [key for key in old if key not in new]
