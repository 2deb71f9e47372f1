"""`npu-warden test FILE...`: runs scenario files on a virtual clock, to try a policy before it is used."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from console.scenario.common import Result, ScenarioError, load

EXIT_FAILED = 1
EXIT_UNREADABLE = 2


def run(path: Path) -> Result:
    """Run one file of either kind. Raises ScenarioError."""
    raw = load(path)
    return _runner(raw.get("kind"))(path, raw)


def _runner(kind: object) -> Callable[[Path, dict[str, Any]], Result]:
    # Each kind on first use: a policy scenario needs nothing of the agent, a detection scenario no Kubernetes model.
    if kind == "detection":
        from console.scenario.detection import run_detection

        return run_detection
    if kind == "policy":
        from console.scenario.policy import run_policy

        return run_policy
    raise ScenarioError(f"kind: must be detection or policy, is {kind!r}")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each file.")
def test(files: tuple[Path, ...], as_json: bool) -> None:
    """Run scenario FILES on a virtual clock: a line for each, and on failure what was expected and what was there.

    Exit codes: 0 all hold, 1 one does not, 2 a file cannot be read.
    """
    code = 0
    for path in files:
        try:
            result = run(path)
        except ScenarioError as exc:
            code = EXIT_UNREADABLE
            _unreadable(path, str(exc), as_json=as_json)
        else:
            code = max(code, 0 if result.ok else EXIT_FAILED)
            _tell(result, as_json=as_json)
    sys.exit(code)


def _unreadable(path: Path, why: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"path": str(path), "error": why}))
    else:
        click.echo(f"ERROR {path}: {why.removeprefix(f'{path}: ')}", err=True)


def _tell(result: Result, *, as_json: bool) -> None:
    if as_json:
        fields = {"path": str(result.path), "name": result.name, "ok": result.ok, "failures": result.failures}
        click.echo(json.dumps(fields))
        return
    click.echo(f"{'ok   ' if result.ok else 'FAIL '} {result.path}: {result.name}")
    for failure in result.failures:
        click.echo(f"      {failure}")
