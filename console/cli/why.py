"""`npu-warden why`: what the warden does about a node, pod or workload, and what it refuses to do, with reasons."""

from __future__ import annotations

import sys
from typing import Any

import click

from console.cli.chain import print_chain
from console.cli.errors import FINDING, Unusable
from console.cli.holds import open_holds, print_holds, print_left_alone
from console.cli.output import json_option, print_json, print_line, print_table
from console.cli.questions import NODE_COLUMNS, node_row
from console.cli.reconciler_api import ask, url_option
from console.cli.recovery import is_open, phase, recovery_story
from console.cli.warden import say_warden, warden_of
from console.cli.watching import watchable

FAILED_PHASES = frozenset({"Exhausted", "OwnerTerminal"})
"""Recoveries that ended without new pods: still worth a person's attention."""


@click.command()
@click.argument("subject")
@url_option
@json_option
@watchable
def why(subject: str, url: str, as_json: bool) -> None:
    """Explain what the warden does, and what it refuses, about SUBJECT.

    SUBJECT is a node (`node-a`), a pod or a workload (`namespace/name`), or one unit of a workload
    (`namespace/workload/instance`). Exit code 1: there is something to tell.
    """
    found, warden = _answer(subject, url), warden_of(url)
    if as_json:
        print_json({**found, "warden": warden})
    else:
        say_warden(warden)
        _show(found)
    if not _fine(found):
        sys.exit(FINDING)


def _answer(subject: str, url: str) -> dict[str, Any]:
    match subject.count("/"):
        case 0:
            try:
                return ask(url, "/v1/why", {"node": subject})
            except Unusable as exc:
                hint = "`npu-warden nodes` lists them; a pod or workload is asked for as NAMESPACE/NAME"
                raise Unusable(f"{exc.message}; {hint}") from exc
        case 1:
            try:
                return ask(url, "/v1/why", {"pod": subject})
            except Unusable:
                return _of_workload(subject, url)
        case _:
            return _of_workload(subject, url)


def _of_workload(subject: str, url: str) -> dict[str, Any]:
    try:
        return ask(url, "/v1/why", {"workload": subject})
    except Unusable as exc:
        raise Unusable(f"{exc.message}; `npu-warden coverage` lists the workloads") from exc


def _fine(found: dict[str, Any]) -> bool:
    node, told = found.get("node"), found["recoveries"]
    troubled = any(is_open(item) or phase(item) in FAILED_PHASES for item in told)
    return not open_holds(_refusals(found)) and not troubled and (not node or node["verdict"] == "ok")


def _refusals(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Without what a recovery below says of itself."""
    said = {
        (item["spec"]["unit"], item["status"].get("reason"), item["status"].get("message") or "")
        for item in found["recoveries"]
    }
    return [hold for hold in found["verdicts"] if (hold["subject"], hold["reason"], hold["message"]) not in said]


def _show(found: dict[str, Any]) -> None:
    unit = found.get("unit")
    print_line(found["subject"] + (f" restarts as {unit}" if unit and unit != found["subject"] else ""))
    if units := found.get("units"):
        print_line(f"units: {', '.join(units)}")
    if pods := found.get("pods"):
        print_line(f"pods: {', '.join(pods)}")
    if node := found.get("node"):
        print_table("\nnode", NODE_COLUMNS, [node_row(node)])
    print_chain(found["chain"])
    print_holds(_refusals(found))
    print_left_alone(_refusals(found))
    if found["recoveries"]:
        click.secho("\nrecoveries", bold=True)
        for item in found["recoveries"]:
            for line in recovery_story(item):
                print_line(line)
    if _fine(found):
        click.echo("nothing is wrong, nothing is refused")
