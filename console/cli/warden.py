"""What keeps the warden itself from acting, in lines that stand before everything else: such a warden looks well."""

from __future__ import annotations

from typing import Any

import click

from console.cli.reconciler_api import ask

KEYS = ("paused", "observe_only", "policy_error")


def warden_of(url: str) -> dict[str, Any]:
    """The three keys, as the leader sees them now. Raises like `ask`."""
    found = ask(url, "/v1/warden")
    return {key: found.get(key) for key in KEYS}


def idle(warden: dict[str, Any]) -> bool:
    """Whether it would do nothing about a fault."""
    return warden["paused"] is not None or bool(warden["observe_only"])


def say_warden(warden: dict[str, Any]) -> None:
    """One line for each thing that keeps it; nothing for a warden that acts by its newest policy."""
    if warden["paused"] is not None:
        click.secho(f"PAUSED ({warden['paused']}): no taints, no restarts; `npu-warden resume` ends that", bold=True)
    if warden["observe_only"]:
        click.secho("OBSERVE ONLY (observe_only = true in policy.toml): the warden writes nothing", bold=True)
    if warden["policy_error"] is not None:
        click.secho(f"policy.toml refused: {warden['policy_error']} (the one before stays in force)", bold=True)
