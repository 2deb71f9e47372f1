"""`npu-warden config check` of MindCluster's fault-code files, read as the agent reads them: `FILE:LINE: KEY: ...`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click
import msgspec

from agent.detect import customization, rules
from agent.detect.complaints import UnusableFile
from agent.detect.fault_levels import CHIP_LISTS, SWITCH_LISTS
from console.cli.errors import FINDING
from console.cli.json_places import line_of, places
from console.cli.output import print_json
from shared import catalog

_KEY = re.compile(r'"(\w+)"\s*:')
_KEYS = {
    rules.NODED_FILE: {"FaultTypeCode"},
    rules.CUSTOMIZATION_FILE: customization.KEYS,
    rules.LEVELS_FILE: CHIP_LISTS.keys() - SWITCH_LISTS.keys(),
    rules.SWITCH_FILE: SWITCH_LISTS.keys() - CHIP_LISTS.keys(),
}
"""Keys that only one of the files has; the first whose key is there is meant."""


class Finding(msgspec.Struct, frozen=True):
    """What is not used of a file: line from 1, place (empty: the whole file), cause and consequence."""

    line: int
    key: str
    text: str


def fault_file_in(file: Path) -> tuple[str, str] | None:
    """Which of MindCluster's files it is, and its text; None for any other file, readable or not."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    kind = kind_of(text, file.name) if text.lstrip("\ufeff \t\r\n")[:1] == "{" else None
    return (kind, text) if kind else None


def kind_of(text: str, name: str) -> str | None:
    """The file's name in MindCluster, told by its keys, then by the form of its codes, then by `name`."""
    keys = set(_KEY.findall(text))
    if {"apiVersion", "kind"} <= keys:
        return None
    for kind, own in _KEYS.items():
        if keys & own:
            return kind
    if keys & SWITCH_LISTS.keys():
        return rules.SWITCH_FILE if '"[0x' in text else rules.LEVELS_FILE
    return name if name in _KEYS else None


def check(kind: str, text: str) -> list[Finding]:
    """What the agent would not use."""
    try:
        complaints = rules.parse(kind, text, catalog.load()).complaints
    except UnusableFile as exc:
        cause = exc.__cause__
        line = cause.lineno if isinstance(cause, json.JSONDecodeError) else 1
        return [Finding(line, "", str(exc).removeprefix(f"{kind}: "))]
    lines = places(text)
    found = [Finding(line_of(lines, one.key), one.key, one.why) for one in complaints]
    return sorted(found, key=lambda one: one.line)


def check_fault_file(file: Path, kind: str, text: str, *, as_json: bool) -> None:
    """Print what the agent would not use. Exit code 1: something."""
    found = check(kind, text)
    if as_json:
        print_json({"file": str(file), "kind": kind, "ok": not found, "error": None, "findings": found})
    else:
        for one in found:
            click.echo(f"{file}:{one.line}: {f'{one.key}: ' if one.key else ''}{one.text}")
        if not found:
            click.echo(f"{file}: usable as MindCluster's {kind}")
    if found:
        sys.exit(FINDING)
