"""`npu-warden drill run | list | stop | report`: prove the warden before the night does."""

from __future__ import annotations

import secrets
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

from console import drill_access
from console.cli.drill_local import local
from console.cli.drill_run import DrillRun, answer
from console.cli.durations import Duration
from console.cli.errors import FINDING, Unusable
from console.cli.hands import kubeconfig_option
from console.cli.output import ago, json_option, print_json, print_line, print_table
from console.cli.reconciler_api import items, url_option
from console.drill_codes import code_refused
from console.drill_watch import Watch
from console.drills import FORMATS, KINDS, NODE, Kind, Report, decode, objectives, phases_of, render
from reconciler.core import clock
from shared.model import fault_id

MAX_TTL_S = 3600
node_option = click.option("--node", required=True, help="Name of the node.")
format_option = click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)


@click.group()
def drill() -> None:
    """Inject a fault at the sensors of one node, and see what the warden makes of it."""


drill.add_command(local)


@drill.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.option("--node", help="Name of the node. Every kind but software-fault needs it.")
@click.option("--chip", type=click.IntRange(0, 1023), default=0, show_default=True, help="Physical id of the chip.")
@click.option("--pod", help="NAMESPACE/NAME of the pod that ends, for software-fault.")
@click.option("--code", help="Another fault code than the usual one of the kind.")
@click.option("--severity", type=click.IntRange(0, 3), default=3, show_default=True, help="As the driver's events.")
@click.option(
    "--ttl", "ttl_s", type=Duration(MAX_TTL_S), default="5m", show_default=True, help="It ends by itself after so long."
)
@click.option("--effect", type=click.Choice(("shadow", "real")), default="shadow", show_default=True)
@click.option("--expect", default="", help="Objectives, such as detect=2s,taint=3s,ready=120s.")
@click.option("--force", is_flag=True, help="Also while real faults are open, and the last instance of a role.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there too.")
@format_option
@url_option
@kubeconfig_option
def run(
    kind: str,
    node: str | None,
    chip: int,
    pod: str | None,
    code: str | None,
    severity: int,
    ttl_s: float,
    effect: str,
    expect: str,
    force: bool,
    output: Path | None,
    form: str,
    url: str,
    kubeconfig: str | None,
) -> None:
    """Run a drill of KIND and report its phases. Effect `shadow` shows what would be done, `real` does it.

    Ctrl-C ends the drill. Exit code 1: an objective was missed, or the drill did not run.
    """
    what = KINDS[kind]
    if code is not None and (wrong := code_refused(code, kind)):
        raise Unusable(f"--code: {wrong}")
    try:
        wanted = objectives(expect, effect, what)
    except ValueError as exc:
        raise Unusable(f"--expect: {exc}") from exc
    where, uid = _place(what, kind, node, pod, kubeconfig)
    subject: int | str = NODE if what.of_node else chip
    began_wall = time.time()
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(began_wall))}-{kind}-{secrets.token_hex(2)}"
    request = {
        "name": name,
        "kind": kind,
        "chip": subject,
        "code": (code or what.code).upper(),
        "until": began_wall + ttl_s,
        "severity": severity,
        "effect": effect,
        "force": force,
        **({"pod": pod, "uid": uid} if pod else {}),
    }
    before = {f"{one['namespace']}/{one['name']}" for one in items(url, "/v1/recoveries")}
    signal.signal(signal.SIGTERM, _as_interrupt)
    watch = Watch(name, kind, where, effect, before, time.monotonic(), pod or "")
    why = DrillRun(watch, request, url=url, kubeconfig=kubeconfig, ttl_s=ttl_s).run(wanted)
    done = Report(
        drill=name,
        node=where,
        kind=kind,
        fault=f"pod {pod}" if pod else fault_id(str(request["code"]), subject),
        effect=effect,
        began=clock.rfc3339(began_wall),
        phases=phases_of(watch.at_s, wanted),
        would=watch.would,
        recoveries=watch.recoveries,
        why=why,
        held=watch.held,
    )
    kept = msgspec.json.encode(done).decode()
    answer(drill_access.end(kubeconfig, where, name=name, report=kept), f"node {where}")
    text = render(done, form)
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    click.echo(text)
    raise SystemExit(0 if done.ok else FINDING)


@drill.command("list")
@url_option
@json_option
def list_(url: str, as_json: bool) -> None:
    """List the drills that are asked for or run, and what a shadow drill would cause."""
    rows = items(url, "/v1/drills")
    if as_json:
        print_json({"items": rows, "next": None})
        return
    if not rows:
        click.echo("no drill is asked for, none runs")
        return
    now = time.time()
    shown = [
        (row["name"], row["node"], row["state"], row.get("fault"), row.get("effect"), _left(row, now), row.get("why"))
        for row in rows
    ]
    print_table("", ("DRILL", "NODE", "STATE", "FAULT", "EFFECT", "LEFT", "WHY"), shown)
    for row in rows:
        for text in row.get("would", ()):
            print_line(f"{row['name']} would {text}")
        if row.get("held"):
            print_line(f"{row['name']}: {row['held']}")


@drill.command()
@node_option
@kubeconfig_option
@json_option
def stop(node: str, kubeconfig: str | None, as_json: bool) -> None:
    """End the drill of a node: its agent shows again what is there."""
    name = answer(drill_access.end(kubeconfig, node), f"node {node}")[1]
    if as_json:
        print_json({"node": node, "drill": name or None})
    else:
        click.echo(f"{node}: drill {name} is ended" if name else f"{node}: no drill was asked for")


@drill.command()
@node_option
@format_option
@kubeconfig_option
def report(node: str, form: str, kubeconfig: str | None) -> None:
    """Show how the newest drill of a node went."""
    _, raw = answer(drill_access.kept(kubeconfig, node), f"node {node}")
    if raw is None:
        raise Unusable(f"{node}: no drill has been reported there")
    try:
        found = decode(raw)
    except ValueError as exc:
        raise Unusable(f"{node}: {exc}") from exc
    click.echo(render(found, form))
    raise SystemExit(0 if found.ok else FINDING)


def _place(what: Kind, kind: str, node: str | None, pod: str | None, kubeconfig: str | None) -> tuple[str, str]:
    """The node that the request is written on, and the UID of the pod that ends. Raises Unusable, Unreachable."""
    if what.by != "command":
        if pod is not None:
            raise Unusable(f"--pod: {kind} is of a node")
        if node is None:
            raise Unusable(f"{kind}: --node names the node")
        if what.by == "lab" and not answer(drill_access.in_lab(kubeconfig), "version")[1]:
            raise Unusable(f"{kind}: Redis is everybody's, so only `npu-warden lab up` has such a drill")
        return node, ""
    if pod is None or pod.count("/") != 1:
        raise Unusable(f"{kind}: --pod NAMESPACE/NAME names the pod")
    _, home, uid = answer(drill_access.pod(kubeconfig, pod), f"pod {pod}")
    if not home:
        raise Unusable(f"pod {pod} runs on no node yet")
    if node not in (None, home):
        raise Unusable(f"pod {pod} runs on {home}, not on {node}")
    return home, uid


def _left(row: dict[str, Any], now: float) -> str | None:
    until = row.get("until")
    return ago(until - now) if until and until > now else None


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
