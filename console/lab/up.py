"""`npu-warden lab up`: the simulated cluster with real daemons, kept running for whoever wants to break something."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import click

from console.cli.errors import Unreachable
from console.lab import workloads
from console.lab.children import RigError
from console.lab.cluster.podstatus import chips_of
from console.lab.rig import LabRig, lab_rig
from console.lab.signals import run_until_signal
from console.lab.watching import StepMissing, until

HOLD_DOWN_S = 5.0
PLACED_S = 10.0
CODE = "80E18402"


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where hosts, configuration and logs go; kept at the end. Without it: a temporary directory, removed.",
)
@click.option("--nodes", type=click.IntRange(1, 16), default=4, show_default=True, help="Simulated nodes.")
@click.option("--chips", type=click.IntRange(1, 64), default=8, show_default=True, help="NPUs of each.")
@click.option("--json", "as_json", is_flag=True, help="Say where everything is as one line of JSON.")
def up(directory: Path | None, nodes: int, chips: int, as_json: bool) -> None:
    """Start a simulated cluster with real agents, Redis and reconciler, and keep it running until Ctrl-C.

    Says where everything is and how to break a chip. Exit code 3 when something does not start or ends by itself.
    """
    with _place(directory) as where:
        try:
            run_until_signal(_stand(Path(where), nodes, chips, as_json))
        except (RigError, StepMissing) as exc:
            raise Unreachable(str(exc)) from exc
    click.echo("The lab has ended.", err=as_json)


def _place(directory: Path | None) -> contextlib.AbstractContextManager[str]:
    if directory is None:
        return tempfile.TemporaryDirectory(prefix="npu-warden-lab-")
    return contextlib.nullcontext(str(directory.absolute()))


async def _stand(directory: Path, nodes: int, chips: int, as_json: bool) -> None:
    click.echo(f"Starting {nodes} nodes of {chips} chips, Redis, {nodes} agents and a reconciler ...", err=as_json)
    async with lab_rig(directory, nodes=nodes, chips=chips, hold_down_s=HOLD_DOWN_S) as rig:
        workloads.apply(rig.cluster)
        # A small lab has no room for all of them: pods that wait for capacity are worth looking at, too.
        with contextlib.suppress(StepMissing):
            await until(rig.cluster.store, lambda: not _waiting(rig), PLACED_S, lambda: "pods wait")
        click.echo(json.dumps(_places(rig)) if as_json else "\n".join(_guide(rig)))
        await asyncio.Event().wait()


def _waiting(rig: LabRig) -> int:
    """Pods that are not Ready, of all that there should be."""
    return workloads.PODS - sum(map(workloads.ready, rig.cluster.store.objects("pods")))


def _places(rig: LabRig) -> dict[str, Any]:
    return {
        "directory": str(rig.directory),
        "kubeconfig": str(rig.kubeconfig),
        "policy": str(rig.policy),
        "api_server": rig.cluster.url,
        "redis": rig.broker.url,
        "reconciler": rig.reconciler,
        "agents": dict(rig.agents),
        "hosts": {name: str(host.directory) for name, host in rig.hosts.items()},
    }


def _guide(rig: LabRig) -> list[str]:
    pods = rig.cluster.store.objects("pods")
    mindie = (pod for pod in pods if pod["metadata"]["namespace"] == workloads.MINDIE)
    victim = next((pod for pod in mindie if workloads.ready(pod) and chips_of(pod)), None)
    node = victim["spec"]["nodeName"] if victim else next(iter(rig.hosts))
    chip = chips_of(victim)[0] if victim else 0
    host = f"--dir {rig.hosts[node].directory}"
    what = f"used by {victim['metadata']['namespace']}/{victim['metadata']['name']}" if victim else "unused"
    waiting = _waiting(rig)
    return [
        f"Redis       {rig.broker.shown}",
        f"API server  {rig.cluster.url}, no credentials",
        f"Reconciler  {rig.reconciler}",
        *(f"Agent       {url} ({name})" for name, url in rig.agents.items()),
        f"Workloads   {workloads.PODS - waiting} pods Ready" + (f", {waiting} wait for room" if waiting else ""),
        f"Files       {rig.directory}",
        "",
        "Look at it, in another terminal (from a clone: `uv run npu-warden ...`):",
        f"  export KUBECONFIG={rig.kubeconfig}",
        f"  export NPUWARDEN_URL={rig.reconciler}",
        "  npu-warden status; npu-warden nodes; npu-warden recoveries",
        "",
        f"Break chip {chip} of {node}, {what}, and heal it again:",
        f"  npu-warden lab host break {chip} {CODE} \\",
        f"    {host}",
        f"  npu-warden lab host heal {chip} \\",
        f"    {host}",
        f"A healed node is released after {HOLD_DOWN_S:g} s (the default is 300 s). The policy is",
        f"{rig.policy}; it is read again when it changes.",
        "Ctrl-C ends the lab.",
    ]
