"""`npu-warden drill run | list | stop | report`: prove the warden before the night does."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click
import msgspec

from console import drill_access
from console.cli.drill_local import local
from console.cli.durations import Duration
from console.cli.errors import FINDING, Unreachable, Unusable
from console.cli.hands import kubeconfig_option
from console.cli.output import ago, json_option, print_json, print_table
from console.cli.reconciler_api import ask, items, url_option
from console.drills import FORMATS, KINDS, NODE, Report, Watch, decode, objectives, phases_of, render
from reconciler.core import clock
from reconciler.core.calls import Reply
from shared.config import ConfigError
from shared.model import fault_id

T = TypeVar("T")
EVERY_S = 0.25
BEGUN_S = 30.0
"""An agent looks for commands every 2 s; one that has not begun by then has refused, or is not there."""
REVERTED_S = 20.0
PATIENCE_S = 45.0
"""A leader that is killed has a successor within this."""
MAX_TTL_S = 3600.0
node_option = click.option("--node", required=True, help="Name of the node.")
format_option = click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)


@click.group()
def drill() -> None:
    """Inject a fault at the sensors of one node, and see what the warden makes of it."""


drill.add_command(local)


@drill.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@node_option
@click.option("--chip", type=click.IntRange(0, 1023), default=0, show_default=True, help="Physical id of the chip.")
@click.option("--code", help="Another fault code than the usual one of the kind.")
@click.option("--severity", type=click.IntRange(0, 3), default=3, show_default=True, help="As the driver's events.")
@click.option(
    "--ttl", "ttl_s", type=Duration(), default="5m", show_default=True, help="It ends by itself after so long."
)
@click.option("--effect", type=click.Choice(("shadow", "real")), default="shadow", show_default=True)
@click.option("--expect", default="", help="Objectives, such as detect=2s,taint=3s,ready=120s.")
@click.option("--force", is_flag=True, help="Also while real faults are open.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there too.")
@format_option
@url_option
@kubeconfig_option
def run(
    kind: str,
    node: str,
    chip: int,
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
    if what.code is None:
        raise Unusable(f"{kind}: no such injection: {what.says}")
    if ttl_s > MAX_TTL_S:
        raise Unusable(f"--ttl: at most {MAX_TTL_S / 60:.0f}m")
    try:
        wanted = objectives(expect, effect)
    except ValueError as exc:
        raise Unusable(f"--expect: {exc}") from exc
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
    }
    before = {f"{one['namespace']}/{one['name']}" for one in items(url, "/v1/recoveries")}
    signal.signal(signal.SIGTERM, _as_interrupt)
    began_s = time.monotonic()
    watch = Watch(name, node, effect, before, began_s)
    try:
        _asked(drill_access.ask(kubeconfig, node, request), node)
        why = _follow(watch, url, wanted, began_s, ttl_s)
    except KeyboardInterrupt:
        why = "interrupted"
    finally:
        _take_back(watch, url, kubeconfig, began_s, ttl_s)
    done = Report(
        drill=name,
        node=node,
        kind=kind,
        fault=fault_id(str(request["code"]), subject),
        effect=effect,
        began=clock.rfc3339(began_wall),
        phases=phases_of(watch.at_s, wanted),
        would=watch.would,
        recoveries=watch.recoveries,
        why=why,
    )
    _asked(drill_access.end(kubeconfig, node, name=name, report=msgspec.json.encode(done).decode()), node)
    text = render(done, form)
    if output is not None:
        output.write_text(f"{text}\n", encoding="utf-8")
    click.echo(text)
    raise SystemExit(0 if done.ok else FINDING)


@drill.command("list")
@url_option
@json_option
def list_(url: str, as_json: bool) -> None:
    """List the drills that are asked for or run."""
    rows = items(url, "/v1/drills")
    if as_json:
        print_json(rows)
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


@drill.command()
@node_option
@kubeconfig_option
@json_option
def stop(node: str, kubeconfig: str | None, as_json: bool) -> None:
    """End the drill of a node: its agent shows again what is there."""
    name = _asked(drill_access.end(kubeconfig, node), node)[1]
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
    _, raw = _asked(drill_access.kept(kubeconfig, node), node)
    if raw is None:
        raise Unusable(f"{node}: no drill has been reported there")
    try:
        found = decode(raw)
    except ValueError as exc:
        raise Unusable(f"{node}: {exc}") from exc
    click.echo(render(found, form))
    raise SystemExit(0 if found.ok else FINDING)


def _follow(watch: Watch, url: str, wanted: dict[str, float], began_s: float, ttl_s: float) -> str:
    """Watch until nothing more is to come. Returns what kept it from that, or nothing."""
    begun, heard_s = False, time.monotonic()
    while (now_s := time.monotonic()) < began_s + ttl_s:
        try:
            row = _look(watch, url, now_s)
        except Unreachable:
            if now_s > heard_s + PATIENCE_S:
                raise
            time.sleep(1.0)  # another replica is about to lead
            continue
        heard_s = time.monotonic()
        if row is not None and row["state"] == "refused":
            return f"refused: {row.get('why')}"
        if begun and row is None:
            return "it was ended by somebody else"
        begun = begun or (row is not None and row["state"] == "running")
        if not begun and now_s > began_s + BEGUN_S:
            return f"the agent of {watch.node} has not begun it within {BEGUN_S:.0f} s: its log says whether it refused"
        if watch.complete(wanted, now_s):
            return ""
        time.sleep(EVERY_S)
    return "" if "detect" in watch.at_s else "its time ran out before the fault was seen"


def _look(watch: Watch, url: str, now_s: float) -> dict[str, Any] | None:
    """One round of questions. Returns the drill's row."""
    row = next((one for one in items(url, "/v1/drills") if one["name"] == watch.name), None)
    node = ask(url, f"/v1/nodes/{watch.node}")
    recoveries = items(url, "/v1/recoveries") if watch.effect == "real" else []
    watch.see(row, node, recoveries, now_s)
    return row


def _take_back(watch: Watch, url: str, kubeconfig: str | None, began_s: float, ttl_s: float) -> None:
    """End it, and wait until the fault is gone. A failure is said: the agent ends the drill itself at its time."""
    try:
        _asked(drill_access.end(kubeconfig, watch.node, name=watch.name), watch.node)
    except click.ClickException as exc:
        left_s = max(0.0, began_s + ttl_s - time.monotonic())
        click.echo(f"the drill could not be ended ({exc.message}); it ends by itself in {left_s:.0f} s", err=True)
        return
    give_up_s = time.monotonic() + REVERTED_S
    while "detect" in watch.at_s and time.monotonic() < give_up_s:
        try:
            if not any(watch.is_ours(fault) for fault in ask(url, f"/v1/nodes/{watch.node}")["faults"]):
                watch.at_s["reverted"] = time.monotonic() - began_s
                return
        except Unreachable as exc:
            click.echo(f"the drill is ended, its end was not seen: {exc.message}", err=True)
            return
        time.sleep(EVERY_S)


def _asked(work: Coroutine[Any, Any, T], node: str) -> T:
    """The answer of the API server. Raises Unusable, Unreachable."""
    try:
        answer = asyncio.run(work)
    except (ConfigError, drill_access.Taken) as exc:
        raise Unusable(str(exc)) from exc
    reply = answer[0] if isinstance(answer, tuple) else answer
    if isinstance(reply, Reply) and not reply.ok:
        if reply.status == 0 or reply.status >= 500:
            raise Unreachable(f"node {node}: no answer from the API server: {reply.text.removeprefix('0 ')}")
        raise Unusable(f"node {node}: {reply.text}")
    return answer


def _left(row: dict[str, Any], now: float) -> str | None:
    until = row.get("until")
    return ago(until - now) if until and until > now else None


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
