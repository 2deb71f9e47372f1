"""The configuration files of the lab's daemons: what an installation would write, on loopback and in one directory."""

from __future__ import annotations

import json
from pathlib import Path

from console.cli.toml import dump
from console.lab.host.sim_host import SimHost

UNUSED = "none"


def agent_toml(host: SimHost, *, redis_url: str, port: int) -> str:
    """An agent that sees the simulated host and nothing of the machine around it but its boot id, memory and disk."""
    paths = {
        "dcmi": str(host.library or UNUSED),
        "npu_smi": str(host.npu_smi),
        "hccn_tool": str(host.hccn_tool),
        "state_dir": str(host.directory / "agent"),
        "config_dir": str(host.directory / "faults"),
        "kubelet_dir": str(host.directory / "kubelet"),
        "sysfs": str(host.sysfs),
        "kmsg": str(host.directory / "kmsg"),
    }
    poll = {"links_s": 60}  # each call of the stand-in hccn_tool starts an interpreter, and there are hosts times chips
    return dump({"poll": poll, "redis": {"url": redis_url}, "http": {"listen": f"127.0.0.1:{port}"}, "paths": paths})


def reconciler_toml(*, redis_url: str, port: int, kubeconfig: Path, policy: Path) -> str:
    """A reconciler beside its kubeconfig and policy."""
    return dump(
        {
            "policy": str(policy),
            "kube": {"kubeconfig": str(kubeconfig)},
            "redis": {"url": redis_url},
            "http": {"listen": f"127.0.0.1:{port}"},
        }
    )


def policy_toml(*, hold_down_s: float) -> str:
    """The default policy, but for the time a healed node is kept."""
    return dump({"isolate": {"hold_down_s": hold_down_s}})


def kubeconfig(url: str) -> str:
    """For kubectl and the reconciler; JSON, which is YAML. The lab's API server asks for no credentials."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": url}}],
            "users": [{"name": "lab", "user": {}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        },
        indent=2,
    )
