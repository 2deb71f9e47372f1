"""`npu-warden decode`: captured text of a vendor's tool as JSON, as the agent would understand it."""

from __future__ import annotations

import sys
from typing import BinaryIO

import click

from agent.decode.tools import TOOLS
from agent.decode.tools import decode as understand
from console.cli.errors import FINDING
from console.cli.output import print_json


def _list(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        for name in TOOLS:
            click.echo(name)
        ctx.exit()


@click.command()
@click.argument("tool", type=click.Choice(list(TOOLS)), metavar="TOOL")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the tools.")
def decode(tool: str, file: BinaryIO) -> None:
    """Print what is understood of FILE (or standard input), the text of one call of TOOL, as JSON.

    Lines that start with # are comments. Exit code 1: the text is an error of the tool, stops before its end or is not
    the tool's; then `error` says which, and the rest is only what is certain nevertheless.
    """
    answer = understand(tool, file.read().decode("utf-8", errors="replace"))
    print_json(answer)
    if answer.error is not None:
        sys.exit(FINDING)
