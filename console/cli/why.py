"""`npu-warden why`: what the warden does about a node, pod or workload, and what it refuses to do, with reasons."""

from __future__ import annotations

import sys
from typing import Any

import click

from console.cli.errors import FINDING, Unusable
from console.cli.output import json_option, print_json, print_table
from console.cli.questions import NODE_COLUMNS, RECOVERY_COLUMNS, node_row
from console.cli.reconciler_api import ask, url_option
from console.cli.recovery import is_open, recovery_row


@click.command()
@click.argument("subject")
@url_option
@json_option
def why(subject: str, url: str, as_json: bool) -> None:
    """Explain what the warden does, and what it refuses, about SUBJECT.

    SUBJECT is a node (`node-a`), a pod or a workload (`namespace/name`), or one unit of a workload
    (`namespace/workload/instance`). Exit code 1: there is something to tell.
    """
    found = _answer(subject, url)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not _fine(found):
        sys.exit(FINDING)


def _answer(subject: str, url: str) -> dict[str, Any]:
    match subject.count("/"):
        case 0:
            return ask(url, "/v1/why", {"node": subject})
        case 1:
            try:
                return ask(url, "/v1/why", {"pod": subject})
            except Unusable:
                try:
                    return ask(url, "/v1/why", {"workload": subject})
                except Unusable as exc:
                    raise Unusable(f"nothing is known of a pod or workload {subject!r} at {url}") from exc
        case _:
            return ask(url, "/v1/why", {"workload": subject})


def _fine(found: dict[str, Any]) -> bool:
    node = found.get("node")
    return (
        not found["verdicts"] and not any(map(is_open, found["recoveries"])) and (not node or node["verdict"] == "ok")
    )


def _show(found: dict[str, Any]) -> None:
    unit = found.get("unit")
    click.echo(found["subject"] + (f" restarts as {unit}" if unit and unit != found["subject"] else ""))
    if units := found.get("units"):
        click.echo(f"units: {', '.join(units)}")
    if pods := found.get("pods"):
        click.echo(f"pods: {', '.join(pods)}")
    if node := found.get("node"):
        print_table("\nnode", NODE_COLUMNS, [node_row(node)])
        for fault in node["faults"]:
            click.echo(f"  fault {fault['id']} {fault['level']}" + ("" if fault["confirmed"] else " (unconfirmed)"))
        for unknown in node["unknown"]:
            click.echo(f"  chip {unknown['chip']} cannot be seen: {unknown['why']}")
    if found["verdicts"]:
        rows = ((hold["subject"], hold["reason"], hold["message"]) for hold in found["verdicts"])
        print_table("\nverdicts", ("SUBJECT", "REASON", "MESSAGE"), rows)
    if found["recoveries"]:
        print_table("\nrecoveries", RECOVERY_COLUMNS, map(recovery_row, found["recoveries"]))
    if _fine(found):
        click.echo("nothing is wrong, nothing is refused")
