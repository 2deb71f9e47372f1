"""`npu-warden isolate | release | pause | resume`: a person acts, with the rights of the kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import click

from console import access
from console.cli.errors import Unreachable, Unusable
from console.cli.output import json_option, print_json
from reconciler.core.calls import Reply
from shared.config import ConfigError

kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(), help="Default: $KUBECONFIG, then ~/.kube/config; in a pod its service account."
)
reason_option = click.option("--reason", default="by hand", show_default=True, help="Shown by `why` and in Events.")


@click.command()
@click.argument("node")
@reason_option
@kubeconfig_option
@json_option
def isolate(node: str, reason: str, kubeconfig: str | None, as_json: bool) -> None:
    """Keep new work away from NODE until somebody releases it. Pods that run there stay."""
    _checked(_run(access.patch_node(kubeconfig, node, access.isolation(reason))), f"node {node}")
    _say({"node": node, "isolate": reason}, f"{node}: the warden is asked to isolate it ({reason})", as_json)


@click.command()
@click.argument("node")
@reason_option
@kubeconfig_option
@json_option
def release(node: str, reason: str, kubeconfig: str | None, as_json: bool) -> None:
    """Give NODE back, without a hold-down: after an isolation by hand, or in spite of a fault."""
    _checked(_run(access.patch_node(kubeconfig, node, access.release(reason))), f"node {node}")
    _say({"node": node, "release": reason}, f"{node}: the warden is asked to release it ({reason})", as_json)


@click.command()
@reason_option
@kubeconfig_option
@json_option
def pause(reason: str, kubeconfig: str | None, as_json: bool) -> None:
    """Stop all taints and restarts until `resume`. The warden goes on watching and explaining."""
    _checked(_run(access.set_paused(kubeconfig, reason)), "the control ConfigMap")
    _say({"paused": reason}, f"the warden is paused ({reason}); `npu-warden resume` ends that", as_json)


@click.command()
@kubeconfig_option
@json_option
def resume(kubeconfig: str | None, as_json: bool) -> None:
    """Let a paused warden go on."""
    reply = _run(access.set_paused(kubeconfig, None))
    if reply.status != 404:  # no ConfigMap: nobody ever paused
        _checked(reply, "the control ConfigMap")
    _say({"paused": None}, "the warden is not paused", as_json)


def _run(work: Coroutine[Any, Any, Reply]) -> Reply:
    try:
        return asyncio.run(work)
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc


def _checked(reply: Reply, what: str) -> None:
    if reply.ok:
        return
    if reply.status == 0 or reply.status >= 500:
        raise Unreachable(f"{what}: no answer from the API server: {reply.text.removeprefix('0 ')}")
    raise Unusable(f"{what}: {reply.text}")


def _say(found: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        click.echo(text)
