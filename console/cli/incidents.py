"""`npu-warden incidents`: what many nodes have in common, one line each. Exit code 1: there is one."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from console.cli.errors import FINDING
from console.cli.output import ago, json_option, print_json, print_table
from console.cli.reconciler_api import items, url_option
from console.cli.recovery import unix
from console.cli.watching import watchable

COLUMNS = ("INCIDENT", "AGE", "NODES", "HELD", "WHY")
SHOWN = 3
"""Names of a cell; the rest is counted, `--json` has them all."""


@click.command()
@url_option
@json_option
@watchable
def incidents(url: str, as_json: bool) -> None:
    """List the open incidents: what many nodes have in common, since when, which nodes, and what is held for it.

    Nodes of one failure domain that broke together, one code or one agent version in many domains at once, more nodes
    NotReady than can be believed, an open breaker. Over when it has no nodes any more.

    Exit code 1: there is one.
    """
    found = items(url, "/v1/incidents")
    if as_json:
        print_json({"items": found, "next": None})
    elif found:
        print_incidents("", found)
    else:
        click.echo("no incidents")
    if found:
        sys.exit(FINDING)


def print_incidents(title: str, found: list[dict[str, Any]]) -> None:
    """One line each."""
    now = time.time()
    rows = []
    for one in found:
        began = unix(one["since"])
        age = None if began is None else ago(now - began)
        rows.append((one["id"], age, _few(one["members"]), _few(one["held"]), one["why"]))
    print_table(title, COLUMNS, rows)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
