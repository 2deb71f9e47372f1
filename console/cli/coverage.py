"""`npu-warden coverage`: which workloads would be saved, and what the others lack. Exit code 1: one lacks something."""

from __future__ import annotations

import sys
from typing import Any

import click

from console.cli.errors import FINDING
from console.cli.output import json_option, print_json, print_table
from console.cli.reconciler_api import items, url_option
from console.cli.warden import say_warden, warden_of
from console.cli.watching import watchable

COLUMNS = ("WORKLOAD", "KIND", "UNITS", "PODS", "NPUS", "CHIP", "NODE", "CRASH")
GAP_COLUMNS = ("WORKLOAD", "GAP", "FAULT", "WHAT IS MISSING")
_WORDS = {"chip": "chip", "node": "node", "software": "crash"}


@click.command()
@click.option("--namespace", "-n", help="Only the workloads of this namespace.")
@url_option
@json_option
@watchable
def coverage(namespace: str | None, url: str, as_json: bool) -> None:
    """List the workloads with NPUs: what happens when a chip, a node or a process of theirs fails, and what is missing.

    CHIP, NODE and CRASH say how the pods would be restarted (force, grace), kubelet where a crashed container restarts
    in its pod, off where a label says that nothing shall be done, no where nothing would be. A pause, observe_only and
    the brakes are not counted. Exit code 1: a workload lacks something.
    """
    found = items(url, "/v1/coverage", {"namespace": namespace} if namespace else None)
    if as_json:
        print_json({"items": found, "next": None})
    else:
        say_warden(warden_of(url))
        _show(found)
    if any(item["gaps"] for item in found):
        sys.exit(FINDING)


def _show(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("no workload asks for NPUs")
        return
    print_table("", COLUMNS, [_row(item) for item in found])
    gaps = [_gap_row(item, gap) for item in found for gap in item["gaps"]]
    if gaps:
        print_table("\ngaps", GAP_COLUMNS, gaps)
    else:
        click.echo("\nevery workload is covered")


def _row(item: dict[str, Any]) -> tuple[object, ...]:
    units = f"{item['unit_count']} {item['level']}".strip()
    cells = (_cell(item[kind]) for kind in ("chip", "node", "software"))
    return _name(item), item["kind"], units, item["pods"], item["npus"], *cells


def _cell(answer: dict[str, Any] | None) -> str | None:
    if answer is None:
        return None
    if answer["handled"]:
        return str(answer["method"] or answer["by"])
    return "off" if answer["reason"] == "label-off" else "no"


def _gap_row(item: dict[str, Any], gap: dict[str, Any]) -> tuple[object, ...]:
    where = f" [{', '.join(gap['where'])}]" if gap["where"] else ""
    kinds = [_WORDS[kind] for kind in gap["faults"]]
    return (
        _name(item),
        gap["reason"],
        "all" if len(kinds) == len(_WORDS) else "+".join(kinds),
        f"{gap['message']}{where}",
    )


def _name(item: dict[str, Any]) -> str:
    return f"{item['namespace']}/{item['workload']}"
