"""What the commands print: JSON for programs, tables that fit 80 columns for people, colour on a terminal only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

STYLES = {
    "ok": "green",
    "Recovered": "green",
    "fault": "red",
    "dead": "red",
    "Held": "yellow",
    "unknown": "yellow",
    "WaitingForCapacity": "yellow",
}


def print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One row per line where it fits; a cell that is too long is wrapped, never cut: names are to be copied."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", header_style="dim")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(highlight=False).print(table)


def _cell(value: object) -> str:
    text = escape("-" if value in (None, "") else str(value))
    style = STYLES.get(text)
    return f"[{style}]{text}[/]" if style else text


def ago(seconds: float | None) -> str | None:
    """`7s`, `12m`, `3h`, `5d`: as kubectl shows ages."""
    if seconds is None:
        return None
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
