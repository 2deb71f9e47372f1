"""`npu-warden agent` and `npu-warden reconciler`: read the configuration, run until told to end."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from console.cli.errors import Unusable
from shared.config import ConfigError

config_option = click.option(
    "--config", "path", type=click.Path(path_type=Path), help="TOML file; without it every setting has its default."
)


@click.command()
@config_option
def agent(path: Path | None) -> None:
    """Run the agent of this node: probe the NPUs, classify faults, report them to Redis.

    Ends at SIGTERM with everything saved. Exit code 2: the configuration cannot be used.
    """
    from agent.config import load
    from agent.main import run

    try:
        code = run(load(path))
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc
    sys.exit(code)


@click.command()
@config_option
def reconciler(path: Path | None) -> None:
    """Run the reconciler: read the reports, taint nodes, restart what must restart together.

    Ends at SIGTERM and hands its lease over. Exit code 2: the configuration cannot be used.
    """
    from reconciler.config import load_config
    from reconciler.main import run

    try:
        code = run(load_config(path))
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc
    sys.exit(code)
