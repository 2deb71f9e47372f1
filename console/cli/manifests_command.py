"""`npu-warden config check` of a workload manifest: problems as `FILE:LINE: ...`, as compilers say them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from console.cli.errors import FINDING
from console.cli.manifests import check, holds_workload, is_manifest
from console.cli.output import print_json

_SUFFIXES = (".yaml", ".yml")


def manifest_in(file: Path) -> str | None:
    """The text of a file that is a manifest by its content or its name; None for any other, readable or not."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if file.suffix in _SUFFIXES or is_manifest(text) else None


def check_manifest(file: Path, text: str, *, as_json: bool) -> None:
    """Print what is to be mended. Exit code 1: something is."""
    problems = check(text)
    if as_json:
        print_json({"file": str(file), "kind": "manifest", "ok": not problems, "error": None, "findings": problems})
    else:
        for problem in problems:
            subject = f"{problem.document}: " if problem.document else ""
            click.echo(f"{file}:{problem.line}: {subject}{problem.text}")
        if not problems:
            found = "usable as a workload manifest" if holds_workload(text) else "no workload in it, nothing to check"
            click.echo(f"{file}: {found}")
    if problems:
        sys.exit(FINDING)
