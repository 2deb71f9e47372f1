"""What keeps the warden itself from acting, in lines that stand before everything else: such a warden looks well."""

from __future__ import annotations

from typing import Any

from console.cli.output import print_line
from console.cli.reconciler_api import ask

KEYS = ("paused", "observe_only", "policy_error", "reports_ok", "watch_ok")


def warden_of(url: str) -> dict[str, Any]:
    """These keys, as the leader sees them now. Raises like `ask`."""
    found = ask(url, "/v1/warden")
    return {key: found.get(key) for key in KEYS}


def idle(warden: dict[str, Any]) -> bool:
    """Whether it would do nothing about a fault."""
    return warden["paused"] is not None or bool(warden["observe_only"])


def troubled(warden: dict[str, Any]) -> bool:
    """Whether it lacks something that a person has to give back to it: a good policy, or its sight."""
    return warden["policy_error"] is not None or not (warden["reports_ok"] and warden["watch_ok"])


def say_warden(warden: dict[str, Any]) -> None:
    """One line for each thing that keeps it; nothing for a warden that acts by its newest policy."""
    if warden["paused"] is not None:
        print_line(f"PAUSED ({warden['paused']}): no taints, no restarts; `npu-warden resume` ends that", bold=True)
    if warden["observe_only"]:
        print_line(f"OBSERVE ONLY ({_why_observed(warden)}): the warden writes nothing", bold=True)
    if warden["policy_error"] is not None:
        print_line(f"policy.toml refused: {warden['policy_error']}", bold=True)
    if not warden["reports_ok"]:
        print_line(
            "REDIS CANNOT BE READ: no new fault is seen and no node given back; Kubernetes is watched", bold=True
        )
    if not warden["watch_ok"]:
        print_line("THE API SERVER IS NOT HEARD: nothing is deleted on what was known a minute ago", bold=True)


def _why_observed(warden: dict[str, Any]) -> str:
    return "observe_only = true in policy.toml" if warden["policy_error"] is None else "see policy.toml below"
