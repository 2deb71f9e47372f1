"""`npu-warden recoveries [show NAME]`: all of them in a line each, and one with everything that is kept of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from click.core import ParameterSource

from console.cli.errors import FINDING, Unusable
from console.cli.output import harmless, json_option, print_json, print_line, print_table
from console.cli.reconciler_api import ask, items, url_option
from console.cli.recovery import RECOVERY_COLUMNS, Item, is_open, recovery_row, recovery_story
from console.cli.watching import watchable

EVIDENCE_COLUMNS = ("NODE", "CHIP", "PCI", "DIE", "CODE", "LEVEL", "SINCE", "SAID")
MAX_NAMED = 5


@click.group(invoke_without_command=True)
@url_option
@json_option
@watchable
@click.pass_context
def recoveries(ctx: click.Context, url: str, as_json: bool) -> None:
    """List the recoveries, the newest first: what restarts together, how far it is, how long it took.

    Exit code 1: one is open.
    """
    if ctx.invoked_subcommand is not None:
        named = [p for p in ctx.params if ctx.get_parameter_source(p) is ParameterSource.COMMANDLINE]
        if named:
            options = ", ".join(f"--{'json' if name == 'as_json' else name}" for name in named)
            raise click.UsageError(f"{options}: stands behind {ctx.invoked_subcommand}", ctx)
        return
    found = items(url, "/v1/recoveries")
    if as_json:
        print_json({"items": found, "next": None})
    elif found:
        print_table("", RECOVERY_COLUMNS, [recovery_row(item) for item in found])
    else:
        click.echo("no recoveries")
    _end([item for item in found if is_open(item)])


@recoveries.command()
@click.argument("recovery")
@url_option
@json_option
@watchable
def show(recovery: str, url: str, as_json: bool) -> None:
    """Show one recovery: what happened when, the driver's codes of its faults, the last words of its pods.

    RECOVERY is [NAMESPACE/]NAME of a Recovery, or the unit that restarts together (NAMESPACE/WORKLOAD[/INSTANCE]):
    then its newest one.

    Exit code 1: it is open.
    """
    namespace, name = _named(items(url, "/v1/recoveries"), recovery)
    found = ask(url, f"/v1/recoveries/{namespace}/{name}")
    if as_json:
        print_json(found)
    else:
        for line in (*recovery_story(found), *_more(found)):
            print_line(line)
        _print_evidence(found)
        _print_logs(found)
    _end([found] if is_open(found) else [])


def _named(found: list[Item], asked: str) -> tuple[str, str]:
    """The newest of those that are meant, by namespace and name."""
    for item in found:
        if asked in (item["name"], f"{item['namespace']}/{item['name']}", item["spec"]["unit"]):
            return item["namespace"], item["name"]
    known = [f"{item['namespace']}/{item['name']}" for item in found]
    alike = [name for name in known if asked in name][:MAX_NAMED] or known[:MAX_NAMED]
    hint = f"; known: {', '.join(alike)}" if alike else ""
    raise Unusable(f"there is no recovery {asked!r}{hint}; `npu-warden recoveries` lists them")


def _more(item: Item) -> Iterator[str]:
    spec, status = item["spec"], item["status"]
    history = spec.get("history") or {}
    used = f"{status.get('charged', 0)} retries used by it, {history.get('charged', 0)} before"
    yield f"  history {history.get('recoveries', 0)} recoveries of the unit before this one; {used}"
    if status.get("attempts"):
        yield f"  tries   {status['attempts']} replacements had landed wrong and were deleted"
    if spec.get("escalatedFrom"):
        yield f"  follows {spec['escalatedFrom']}, which did not bring its pod back"
    if status.get("holder"):
        yield f"  by      {status['holder']}"
    for condition in status.get("conditions") or ():
        yield f"  note    {condition['type']} ({condition.get('reason') or '-'}): {condition.get('message', '')}"
    if is_open(item):
        yield f"  next    `npu-warden why {spec['unit']}`"


def _print_evidence(item: Item) -> None:
    found = item["spec"].get("evidence") or []
    if not found:
        click.echo("\nno fault of a chip was open when its pods were about to be deleted")
        return
    rows = []
    for one in found:
        codes = " ".join(code for code in one.get("codes") or () if code != one["code"])
        drill = "drill" if one.get("origin") == "drill" else ""
        doubt = "" if one.get("confirmed", True) else "unconfirmed"
        said = ", ".join(text for text in (drill, doubt, codes and f"also {codes}", one.get("detail")) if text)
        since = (one.get("since") or "").partition(".")[0]
        chip = one.get("chip")
        rows.append(
            (
                *(one["node"], "node" if chip is None else chip, one.get("pci"), one.get("die")),
                *(one["code"], one["level"], since, said),
            )
        )
    print_table("\nevidence: what the driver said then", EVIDENCE_COLUMNS, rows)


def _print_logs(item: Item) -> None:
    if item["logs_note"] is not None:
        print_line(f"\nlogs: {item['logs_note']}")
    for log in item["logs"]:
        cut = ", its beginning is cut off" if log.get("cut") else ""
        click.secho(f"\nlog of {log['pod']}/{log['container']} on {log.get('node') or 'no node'}{cut}", bold=True)
        if log.get("missing"):
            print_line(f"  none: {log['missing']}")
        for line in (log.get("text") or "").splitlines():
            click.echo(f"  {harmless(line)}")


def _end(open_ones: list[Item]) -> None:
    if open_ones:
        sys.exit(FINDING)
