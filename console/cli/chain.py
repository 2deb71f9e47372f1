"""The chain of evidence as a table: a link a row, in the order in which one follows from the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from console.cli.output import ago, print_table

COLUMNS = ("STEP", "ABOUT", "WHAT", "WHEN")

Link = dict[str, Any]


def print_chain(links: Iterable[Link]) -> None:
    print_table("\nevidence", COLUMNS, _rows(links))


def _rows(links: Iterable[Link]) -> Iterator[tuple[object, ...]]:
    for link in links:
        reason = link.get("reason")
        yield link["step"], link["about"], f"{link['says']}{f' [{reason}]' if reason else ''}", _when(link)


def _when(link: Link) -> str | None:
    due_in_s = link.get("due_in_s")
    if due_in_s is not None:
        return f"in {ago(due_in_s)}" if due_in_s > 0 else "now"
    at = link.get("at")
    return str(at).partition(".")[0].rstrip("Z") + "Z" if at else None
