"""How the demo tells its story: plain lines of at most 80 columns, colour on a terminal only, each shown at once."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import click

from console.lab import workloads
from console.lab.cluster.podstatus import chips_of
from console.lab.episode import Step

WIDTH = 80
_STYLES = {"broken": "red", "tainted": "yellow", "Ready": "green", "untouched": "green", "released": "green"}


class Story:
    """What has been told so far; `at` and `untouched` are for the summary in JSON."""

    def __init__(self) -> None:
        self.at: Mapping[Step, float] = {}
        self.untouched: list[str] = []

    def title(self, text: str) -> None:
        click.secho(text, bold=True)

    def say(self, text: str) -> None:
        click.echo(textwrap.fill(text, WIDTH))

    def table(self, rows: Iterable[tuple[str, str]]) -> None:
        for name, text in rows:
            click.echo(f"  {name:<22}{text}")

    def step(self, at_s: float, word: str, text: str) -> None:
        """One moment, in seconds since the chip broke."""
        head = click.style(f"{word:<10}", fg=_STYLES.get(word))
        lines = textwrap.wrap(text, WIDTH - 22) or [""]
        click.echo(f"{at_s:7.2f} s  {head}  {lines[0]}")
        for line in lines[1:]:
            click.echo(" " * 22 + line)


def spread(pods: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Instance -> where its pods run and on which chips, for `Story.table`."""
    places: dict[str, list[str]] = {}
    for pod in pods:
        chips = ",".join(map(str, chips_of(pod)))
        places.setdefault(workloads.instance(pod), []).append(f"{pod['spec']['nodeName']} (chips {chips})")
    return [(name, ", ".join(where)) for name, where in sorted(places.items())]
