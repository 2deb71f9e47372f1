"""`npu-warden scan`: one look at this host, with the agent's own probes and without a daemon."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import click

from agent.config import load, node_name
from agent.scan import scan as look
from console.cli.errors import FINDING, Unusable
from console.cli.output import ago, json_option, print_json, print_table
from shared import catalog
from shared.config import ConfigError
from shared.model import Fault, NodeReport


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="agent.toml; only its paths matter here.")
@json_option
def scan(path: Path | None, as_json: bool) -> None:
    """Look at the NPUs of this host once: chips, open faults, and what could not be looked at.

    Nothing is saved or sent. Exit code 1: there is a fault, or something that could not be seen.
    """
    try:
        config = load(path)
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc
    report = asyncio.run(look(config))
    if as_json:
        print_json(report)
    else:
        click.echo(
            f"{node_name(config)}: {len(report.chips)} chips, {report.machine.generation or 'unknown generation'}"
        )
        _show(report)
    if not report.chips:
        click.echo("no chip was seen: nothing here is known to be well", err=as_json)
    if report.faults or report.unknown or not report.chips:
        sys.exit(FINDING)


def _show(report: NodeReport) -> None:
    if report.chips:
        rows = ((c.phy, c.health, c.name, c.pci, " ".join(c.codes)) for c in report.chips)
        print_table("\nchips", ("CHIP", "HEALTH", "NAME", "PCI", "CODES"), rows)
    if report.faults:
        now = time.time()
        found = ((f.chip, f.code, f.level.value, ago(now - f.since), _seen(f)) for f in report.faults)
        print_table("\nfaults", ("CHIP", "CODE", "LEVEL", "AGE", "NOTE"), found)
    if report.unknown:
        unseen = ((u.chip, u.probe, u.why) for u in report.unknown)
        print_table("\ncould not be seen", ("CHIP", "PROBE", "WHY"), unseen)


def _seen(fault: Fault) -> str:
    """The code's name and what was seen, as far as the probe has kept it."""
    row = catalog.load().lookup(fault.code)
    evidence = dict(fault.evidence)
    name = evidence.pop("name", row.name if row else None)
    seen = (str(value) if key == "why" else f"{key} {value}" for key, value in evidence.items())
    return ", ".join(text for text in (name, *seen) if text)
