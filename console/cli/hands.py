"""`npu-warden isolate | release | pause | resume`: a person acts, with the rights of the kubeconfig."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import click

from console import access
from console.cli.durations import Duration
from console.cli.errors import Unreachable, Unusable
from console.cli.output import json_option, print_json
from reconciler.core import clock
from shared.config import ConfigError

kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(), help="Default: $KUBECONFIG, then ~/.kube/config; in a pod its service account."
)
CONTROL = "the control ConfigMap"

reason_option = click.option("--reason", default="by hand", show_default=True, help="Shown by `why` and in Events.")


@click.command()
@click.argument("node")
@reason_option
@kubeconfig_option
@json_option
def isolate(node: str, reason: str, kubeconfig: str | None, as_json: bool) -> None:
    """Keep new work away from NODE until somebody releases it. Pods that run there stay."""
    before = _run(access.patch_node(kubeconfig, node, access.isolation, reason), f"node {node}").before
    text = f"{node}: the warden is asked to isolate it ({reason}){_replaced(before, reason)}"
    _say({"node": node, "isolate": reason, "before": before}, text, as_json)


@click.command()
@click.argument("node")
@reason_option
@kubeconfig_option
@json_option
def release(node: str, reason: str, kubeconfig: str | None, as_json: bool) -> None:
    """Give NODE back, without a hold-down: after an isolation by hand, or in spite of a fault."""
    before = _run(access.patch_node(kubeconfig, node, access.release, reason), f"node {node}").before
    was = "" if before is None else f"; it was isolated by hand ({before})"
    text = f"{node}: the warden is asked to release it ({reason}){was}"
    _say({"node": node, "release": reason, "before": before}, text, as_json)


@click.command()
@reason_option
@click.option("--for", "for_s", type=Duration(), help="End by itself after so long, such as 30m. Default: `resume`.")
@kubeconfig_option
@json_option
def pause(reason: str, for_s: float | None, kubeconfig: str | None, as_json: bool) -> None:
    """Stop all taints and restarts until `resume`. The warden goes on watching and explaining."""
    until = None if for_s is None else clock.seconds(time.time() + for_s)
    done = _run(access.set_paused(kubeconfig, reason, until), CONTROL)
    ends = "`npu-warden resume` ends that" if until is None else f"until {until}, or `npu-warden resume`"
    if until is None and done.before is not None and (clock.parse(done.until) or 0) > time.time():
        ends = f"it was to end at {done.until}, which is gone too: {ends}"
    text = f"the warden is paused ({reason}){_replaced(done.before, reason)}; {ends}"
    _say({"paused": reason, "until": until, "before": done.before}, text, as_json)


@click.command()
@kubeconfig_option
@json_option
def resume(kubeconfig: str | None, as_json: bool) -> None:
    """Let a paused warden go on."""
    before = _run(access.set_paused(kubeconfig, None), CONTROL, absent_is_fine=True).before
    text = "the warden was not paused: nothing to resume" if before is None else f"resumed (was paused: {before})"
    _say({"paused": None, "before": before}, text, as_json)


def _run(work: Coroutine[Any, Any, access.Done], what: str, *, absent_is_fine: bool = False) -> access.Done:
    """What has been done, and what stood there before. absent_is_fine: no ConfigMap means that nobody ever paused."""
    try:
        done = asyncio.run(work)
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc
    reply = done.reply
    if reply.ok or (absent_is_fine and reply.status == 404):
        return done
    if reply.status == 0 or reply.status >= 500:
        raise Unreachable(f"{what}: no answer from the API server: {reply.text.removeprefix('0 ')}")
    raise Unusable(f"{what}: {reply.text}")


def _replaced(before: str | None, reason: str) -> str:
    return "" if before is None or before == reason else f", which replaces the reason given before ({before})"


def _say(found: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        click.echo(text)
