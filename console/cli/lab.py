"""`npu-warden lab`: the simulated host and cluster."""

from __future__ import annotations

import click

from console.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "host": Lazy("console.lab.host.cli:lab_host", "A simulated host: stand-ins for the driver library and its tools."),
    "up": Lazy("console.lab.up:up", "Start a simulated cluster with agents and a reconciler, and keep it running."),
    "demo": Lazy("console.lab.demo:demo", "Break a chip in a simulated cluster and watch the warden mend it."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def lab() -> None:
    """A simulated host and cluster, to try, teach and drill without hardware."""
