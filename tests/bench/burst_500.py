"""500 of 2,000 nodes fail at once: how long until all are tainted, until pods are deleted, until all that must are.

A chip of every fourth node breaks, so each is under another job of two pods: 500 units restart. The brakes are off,
nothing re-creates the pods. Moments are those at which a watch of the real kube-apiserver shows them.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.model import FaultLevel
from tests.bench.fleet import NAMESPACE, broken, fleet
from tests.bench.line import line
from tests.integration.journal import Journal
from tests.integration.rig import our_taint, terminating
from tests.waiting import wait_until

NODES, PODS, EVERY = 2000, 8000, 4
LONGEST_S = 45.0
TAINTED_GOAL_S, DELETE_GOAL_S = 3.0, 1.0


class Firsts:
    """When each object first was so, as a watch has shown it. Looks at each event once, however often it is asked."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._seen = journal, 0
        self.tainted: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.node_of: dict[str, str] = {}

    def look(self) -> None:
        entries = self._journal.entries[self._seen :]
        self._seen += len(entries)
        for entry in entries:
            name = entry.object["metadata"]["name"]
            if entry.kind == "Node" and our_taint(entry.object):
                self.tainted.setdefault(name, entry.at)
            if entry.kind == "Pod" and (terminating(entry.object) or entry.change == "DELETED"):
                self.deleted.setdefault(name, entry.at)
                self.node_of[name] = entry.object["spec"]["nodeName"]


def run() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as scratch, fleet(Path(scratch), NODES, PODS) as made:
        paths: dict[str, Any] = {"Node": "/api/v1/nodes", "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods"}
        made.reconciler()
        journal = Journal(made.plane.api, paths)
        firsts = Firsts(journal)
        struck = made.names[::EVERY]

        def done() -> bool:
            firsts.look()
            return len(firsts.tainted) >= len(struck) and len(firsts.deleted) >= 2 * len(struck)

        try:
            began = max(made.say(struck, broken(FaultLevel.SEPARATE_NPU)).values())
            with contextlib.suppress(AssertionError):  # then the lines say how far it came
                wait_until("all tainted, all deleted", done, LONGEST_S)
        finally:
            journal.close()
        if not firsts.tainted or not firsts.deleted:
            raise RuntimeError(f"{len(firsts.tainted)} tainted, {len(firsts.deleted)} deleted after {LONGEST_S:g} s")
        said = f"{len(struck)} of {len(made.names)} nodes"
        missing = {"tainted": len(struck) - len(firsts.tainted), "deleted": 2 * len(struck) - len(firsts.deleted)}
        late = {what: f"; {count} NOT within {LONGEST_S:g} s" if count else "" for what, count in missing.items()}
        tainted = [at - began for at in firsts.tainted.values()] + [LONGEST_S] * missing["tainted"]
        deleted = [at - began for at in firsts.deleted.values()] + [LONGEST_S] * missing["deleted"]
        yield line("burst_first_taint", "s", [min(tainted)], note=said)
        yield line(
            "burst_all_tainted",
            "s",
            tainted,
            value=max(tainted),
            goal=TAINTED_GOAL_S,
            note=f"the last; {said}{late['tainted']}",
        )
        yield line("burst_first_delete", "s", [min(deleted)], note="from the reports on")
        own = [
            (at, at - firsts.tainted[on])
            for pod, at in firsts.deleted.items()
            if (on := firsts.node_of[pod]) in firsts.tainted
        ]
        yield line("burst_taint_to_first_delete", "s", [min(own)[1]], goal=DELETE_GOAL_S, note="its own node's taint")
        waits = [wait for _, wait in own]
        yield line("burst_taint_to_delete", "s", waits, note="of every pod on a broken chip, from its own node's taint")
        all_said = f"the last of {2 * len(struck)} pods; {said}{late['deleted']}"
        yield line("burst_all_deleted", "s", deleted, value=max(deleted), note=all_said)
