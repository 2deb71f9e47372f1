"""`npu-warden status | nodes | faults`: what the reconciler sees. Exit code 1: there is a finding."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

import click

from console.cli.errors import FINDING
from console.cli.holds import left_alone, open_holds, print_holds
from console.cli.incidents import print_incidents
from console.cli.output import ago, json_option, print_json, print_line, print_table
from console.cli.reconciler_api import ask, items, url_option
from console.cli.recovery import RECOVERY_COLUMNS, Item, is_open, recovery_row
from console.cli.repairs import COLUMNS as REPAIR_COLUMNS
from console.cli.repairs import repair_row
from console.cli.warden import idle, say_warden, troubled, warden_of
from console.cli.watching import watchable
from shared import catalog


@click.command()
@url_option
@json_option
@watchable
def status(url: str, as_json: bool) -> None:
    """Say in a few lines whether all is well: nodes by verdict, open faults and recoveries, refusals.

    Begins with PAUSED, OBSERVE ONLY, the refused policy.toml, or what cannot be seen, where that keeps the warden from
    acting.

    Exit code 1: a node is not ok, a recovery or an incident is open, something is refused or waits, policy.toml is
    refused, or Redis or the API server cannot be read.
    """
    warden = warden_of(url)
    nodes_found, found, plan = items(url, "/v1/nodes"), items(url, "/v1/recoveries"), ask(url, "/v1/plan")
    verdicts = Counter(node["verdict"] for node in nodes_found)
    faults_found, incidents_found = items(url, "/v1/faults"), items(url, "/v1/incidents")
    drilled = sum(fault.get("origin") == "drill" for fault in faults_found)
    open_found, holds = [item for item in found if is_open(item)], open_holds(plan["holds"])
    fine = verdicts["ok"] == len(nodes_found) and not open_found and not incidents_found and not holds
    fine = fine and not troubled(warden)
    if as_json:
        print_json(
            {
                "fine": fine,
                **warden,
                "nodes": dict(sorted(verdicts.items())),
                "faults": len(faults_found),
                "recoveries": open_found,
                "incidents": incidents_found,
                "holds": holds,
                "left_alone": left_alone(plan["holds"]),
            }
        )
    else:
        say_warden(warden)
        shown = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        click.echo(f"nodes       {len(nodes_found)}{f': {shown}' if shown else ''}")
        of_drills = f", {drilled} of them of a drill (`npu-warden drill list`)" if drilled else ""
        print_line(f"faults      {len(faults_found)} open{of_drills}")
        click.echo(f"recoveries  {len(open_found)} open, {len(found) - len(open_found)} finished")
        if incidents_found:
            print_incidents("\nincidents", incidents_found)
        _print_not_ok(nodes_found)
        _print_withdrawn(nodes_found)
        if open_found:
            print_table("\nopen recoveries", RECOVERY_COLUMNS, (recovery_row(item) for item in open_found))
        print_holds(holds)
        click.echo()
        print_line(_summary(fine, len(faults_found) - drilled, drilled, idle(warden)))
    _end(fine)


def _summary(fine: bool, real: int, drilled: int, is_idle: bool) -> str:
    if not fine:
        return "`npu-warden why SUBJECT` explains a node, pod or workload"
    if real:
        return "nothing is to be done: the open faults (`npu-warden faults`) are of levels that keep no work away"
    if is_idle:
        return "nothing is wrong now, and the warden would do nothing about a fault"
    return "nothing is broken: the open faults are a drill's" if drilled else "all is well"


def _print_not_ok(found: list[Item]) -> None:
    bad = [node for node in found if node["verdict"] != "ok"]
    if bad:
        print_table("\nnodes that are not ok", NODE_COLUMNS, (node_row(node) for node in bad))


def _print_withdrawn(found: list[Item]) -> None:
    """Of nodes that take work: the others are listed with why."""
    for node in found:
        name, npus = node["name"], node.get("npus")
        if node["verdict"] == "ok" and npus is not None and npus["offered"] < npus["present"]:
            fewer = f"its device plugin offers {npus['offered']} of {npus['present']} NPUs"
            remedy = f"if the others are gone for good, `npu-warden release {name}` takes it as it is"
            print_line(f"withdrawn   {name}: {fewer}; {remedy}")


NODE_COLUMNS = ("NODE", "VERDICT", "READY", "TAINT", "REPORT", "WHY")


def node_row(node: Item) -> tuple[object, ...]:
    taint = node["taint"]
    ready = {True: "yes", False: "no", None: None}[node["ready"]]
    why = "; ".join(node["reasons"])
    return node["name"], node["verdict"], ready, taint and taint["effect"], ago(node["report_age_s"]), why


@click.command()
@url_option
@json_option
@watchable
def nodes(url: str, as_json: bool) -> None:
    """List the nodes: verdict (ok, fault, unknown, dead, released), Ready, the warden's taint, age of the report, why.

    released: faults are open, and a person has given the node back in spite of them.

    Exit code 1: a node is not ok.
    """
    found, warden = items(url, "/v1/nodes"), warden_of(url)
    if not as_json:
        say_warden(warden)
    _print("nodes", found, as_json, NODE_COLUMNS, [node_row(node) for node in found])
    _end(all(node["verdict"] == "ok" for node in found))


@click.command()
@click.option("--repair", is_flag=True, help="List the chips that somebody has to repair, replace or look at instead.")
@url_option
@json_option
@watchable
def faults(url: str, as_json: bool, repair: bool) -> None:
    """List the open faults of all nodes. Exit code 1: there is one.

    --repair: each chip with its PCI address and die id, code and meaning, how old the fault is, for how long the node
    has been isolated, and in brackets what speaks for a false alarm. Exit code 1: there is such a chip.
    """
    if repair:
        broken = items(url, "/v1/repairs")
        _print("chips to repair", broken, as_json, REPAIR_COLUMNS, [repair_row(row) for row in broken])
        _end(not broken)
        return
    found, now = items(url, "/v1/faults"), time.time()
    rows = [
        (fault["node"], fault["chip"], fault["code"], fault["level"], ago(now - fault["since"]), _notes(fault))
        for fault in found
    ]
    _print("open faults", found, as_json, ("NODE", "CHIP", "CODE", "LEVEL", "AGE", "NOTE"), rows)
    _end(not found)


def _notes(fault: Item) -> str:
    row = catalog.load().lookup(fault["code"])
    name = (fault.get("evidence") or {}).get("name") or (row.name if row else None)
    drill = fault.get("origin") == "drill"
    notes = (name, "" if fault["confirmed"] else "unconfirmed", "drill" if drill else "")
    return ", ".join(note for note in notes if note)


def _print(what: str, found: list[Item], as_json: bool, columns: tuple[str, ...], rows: list[Any]) -> None:
    if as_json:
        print_json({"items": found, "next": None})
    elif rows:
        print_table("", columns, rows)
    else:
        click.echo(f"no {what}")


def _end(fine: bool) -> None:
    if not fine:
        sys.exit(FINDING)
