"""What the commands print: JSON for programs, tables that fit the terminal for people, colour on a terminal only."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from console.cli.table import layout

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

STYLES = {
    "ok": "green",
    "Recovered": "green",
    "fault": "red",
    "dead": "red",
    "released": "yellow",
    "Held": "yellow",
    "unknown": "yellow",
    "WaitingForCapacity": "yellow",
}


def print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One row per line; only on a terminal, cells that do not fit its width are wrapped, never cut."""
    if title:
        click.secho(title, bold=True)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    shown = [[_cell(value) for value in row] for row in rows]
    for line in layout(columns, shown, width, _styled):
        click.echo(line)


def print_line(text: str, *, bold: bool = False) -> None:
    """A line of prose; on a terminal it is wrapped to its width, what hangs over below the words of a label."""
    text = harmless(text)
    parts = [text]
    if sys.stdout.isatty() and len(text) > (width := shutil.get_terminal_size().columns):
        label = re.match(r" *(\w+ {2,})?", text)
        hanging = " " * (len(label.group()) if label is not None else 0)
        parts = textwrap.wrap(text, width, subsequent_indent=hanging, break_on_hyphens=False)
    for part in parts:
        click.secho(part, bold=bold)


def _cell(value: object) -> str:
    return "-" if value in (None, "") else harmless(" ".join(str(value).split()))


def harmless(text: str) -> str:
    """What a node, a person or a process has written shall not steer the terminal of whoever reads it."""
    return "".join(ch if ch.isprintable() or ch in "\t\n" else ch.encode("unicode_escape").decode() for ch in text)


def _styled(cell: str, padded: str) -> str:
    colour = STYLES.get(cell)
    return click.style(padded, fg=colour) if colour else padded


def ago(seconds: float | None) -> str | None:
    """`7s`, `12m`, `3h`, `5d`: as kubectl shows ages."""
    if seconds is None:
        return None
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
