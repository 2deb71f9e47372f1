"""The entry point `npu-warden`: daemons, questions to the reconciler, scenario files, configuration, the lab."""

from __future__ import annotations

import click

from console.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "agent": Lazy("console.cli.daemons:agent", "Run the agent of this node (a daemon)."),
    "reconciler": Lazy("console.cli.daemons:reconciler", "Run the reconciler (a daemon)."),
    "scan": Lazy("console.cli.scan:scan", "Look at the NPUs of this host once, without a daemon."),
    "status": Lazy("console.cli.questions:status", "Say whether all is well, and what is not."),
    "nodes": Lazy("console.cli.questions:nodes", "List the nodes: health, taint, age of their reports."),
    "faults": Lazy("console.cli.questions:faults", "List the open faults."),
    "incidents": Lazy("console.cli.incidents:incidents", "List what many nodes have in common, what is held for it."),
    "recoveries": Lazy("console.cli.recoveries:recoveries", "List the recoveries and how far they are; show one."),
    "why": Lazy("console.cli.why:why", "Explain what the warden does about a node, pod or workload, and why."),
    "coverage": Lazy("console.cli.coverage:coverage", "List the workloads, and which would not be saved, and why."),
    "isolate": Lazy("console.cli.hands:isolate", "Keep new work away from a node."),
    "release": Lazy("console.cli.hands:release", "Give an isolated node back."),
    "pause": Lazy("console.cli.hands:pause", "Stop all taints and restarts for a while."),
    "resume": Lazy("console.cli.hands:resume", "Let a paused warden go on."),
    "drill": Lazy("console.cli.drill:drill", "Inject a fault at a node's sensors and see what becomes of it."),
    "test": Lazy("console.scenario.cli:test", "Run scenario files on a virtual clock."),
    "decode": Lazy("console.cli.decode:decode", "Print what is understood of captured vendor output, as JSON."),
    "redis-acl": Lazy("console.cli.redis_acl:redis_acl", "Make the users of Redis, each with the least it needs."),
    "config": Lazy("console.cli.config:config", "Check and show configuration files."),
    "lab": Lazy("console.cli.lab:lab", "A simulated host and cluster, to try, teach and drill."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="npu-warden", message="%(prog)s %(version)s")
def main() -> None:
    """NPU Warden finds broken Ascend NPUs, isolates them and restarts exactly the pods that must restart together.

    Exit codes: 0 all is well, 1 a finding, 2 a wrong command line, or a file or key that cannot be used, 3 no answer
    from the reconciler or the API server.
    """
