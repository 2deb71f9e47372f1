"""`npu-warden config`: is this file usable, and what does it come to together with the defaults?"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from console.cli.errors import USAGE, Unusable
from console.cli.fault_files import check_fault_file, fault_file_in
from console.cli.manifests_command import check_manifest, manifest_in
from console.cli.output import json_option, print_json
from console.cli.toml import dump
from shared.config import ConfigError

TAKEN = (
    "; what can be checked: policy.toml, agent.toml, reconciler.toml, MindCluster's fault-code files (JSON)"
    " and workload manifests (YAML)"
)
"""Of a file that is none of these."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file: its name, the struct it becomes, and how a daemon reads it."""

    name: str
    struct: type[msgspec.Struct]
    load: Callable[[Path | None], msgspec.Struct]

    @property
    def keys(self) -> set[str]:
        return set(self.struct.__struct_fields__)


def kinds() -> tuple[Kind, ...]:
    from agent.config import AgentConfig
    from agent.config import load as load_agent
    from reconciler.config import ReconcilerConfig, load_config
    from reconciler.core.policy import Policy
    from shared.config import load_toml

    return (
        Kind("policy", Policy, lambda path: Policy() if path is None else load_toml(path, Policy)),
        Kind("agent", AgentConfig, load_agent),
        Kind("reconciler", ReconcilerConfig, load_config),
    )


kind_option = click.option(
    "--kind",
    type=click.Choice(["policy", "agent", "reconciler"]),
    help="Which file it is; told by its tables, then by its name, when left out.",
)


@click.group()
def config() -> None:
    """Check and show policy.toml, agent.toml and reconciler.toml, as the daemons would read them."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@kind_option
@json_option
def check(file: Path, kind: str | None, as_json: bool) -> None:
    """Say whether FILE can be used: unknown keys and wrong values are named.

    MindCluster's faultCode.json, SwitchFaultCode.json and faultCustomization.json are told by their content: every
    entry that the agent would skip is named with its line.

    A workload manifest (YAML) is checked for labels that nobody would read and values that mean nothing.

    Exit codes: 0 it can, 1 a manifest has such a label or value, or a file of MindCluster such an entry, 2 it cannot be
    read, or a key or value in it cannot be used.
    """
    if kind is None and (fault_file := fault_file_in(file)) is not None:
        check_fault_file(file, *fault_file, as_json=as_json)
        return
    if kind is None and (manifest := manifest_in(file)) is not None:
        check_manifest(file, manifest, as_json=as_json)
        return
    chosen = _kind_of(file, kind, TAKEN)
    try:
        chosen.load(file)
    except ConfigError as exc:
        if as_json:
            print_json({"file": str(file), "kind": chosen.name, "ok": False, "error": str(exc)})
        else:
            click.echo(str(exc), err=True)
        sys.exit(USAGE)
    if as_json:
        print_json({"file": str(file), "kind": chosen.name, "ok": True, "error": None})
    else:
        click.echo(f"{file}: usable as {chosen.name}.toml")


@config.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@kind_option
@json_option
def show(file: Path | None, kind: str | None, as_json: bool) -> None:
    """Print every setting that holds with FILE, the defaults included. Without FILE: the defaults of --kind.

    Exit code 2: FILE cannot be read, or a key or value in it cannot be used.
    """
    if file is None and kind is None:
        raise click.UsageError("name a FILE, or a --kind to see its defaults")
    chosen = _kind_of(file, kind) if file is not None else next(k for k in kinds() if k.name == kind)
    try:
        settings = msgspec.to_builtins(chosen.load(file))
    except ConfigError as exc:
        raise Unusable(str(exc)) from exc
    if as_json:
        print_json(settings)
    else:
        click.echo(dump(settings), nl=False)


def _kind_of(file: Path, name: str | None, taken: str = "") -> Kind:
    """The kind asked for, or the one whose tables the file has, or the one that its name says.

    taken: what is said of a file that is no TOML.
    """
    known = kinds()
    if name is not None:
        return next(kind for kind in known if kind.name == name)
    found = _tables(file, taken)
    scores = {kind.name: len(found & kind.keys) for kind in known}
    best = [kind for kind in known if scores[kind.name] == max(scores.values())]
    if len(best) == 1:
        return best[0]
    if named := [kind for kind in best if kind.name == file.stem]:
        return named[0]
    options = " or ".join(kind.name for kind in best)
    strange = sorted(found - set().union(*(kind.keys for kind in known)))
    unknown = f" (unknown: {', '.join(strange)})" if strange else ""
    raise Unusable(f"{file}: its tables{unknown} do not tell what it is ({options}): say so with --kind")


def _tables(file: Path, taken: str) -> set[str]:
    try:
        content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise Unusable(f"{file}: cannot be read: {exc.strerror or exc}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Unusable(f"{file}: not TOML: {exc}{taken}") from exc
    return set(content)
