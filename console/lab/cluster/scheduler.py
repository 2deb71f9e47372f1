"""The lab's scheduler: looks whenever a pod, node or PodGroup changes, binds what fits, tells why the rest does not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from console.lab.cluster.journal import Change
from console.lab.cluster.patches import MERGE_PATCH
from console.lab.cluster.placement import Placement, place
from console.lab.cluster.resources import NODES, PODGROUPS, PODS
from console.lab.cluster.store import Store

_WATCHED = (PODS, NODES, PODGROUPS)


class Scheduler:
    """Binds every waiting pod, whatever its schedulerName. ``run`` is its loop; ``decide`` is one round of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self._store.listen(self._notice)
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                self.decide()
        finally:
            unlisten()

    def decide(self) -> None:
        """Bind what can be bound now."""
        groups = self._store.objects("podgroups") if PODGROUPS in self._store.resources else []
        for answer in place(self._store.objects("pods"), self._store.objects("nodes"), groups):
            metadata = answer.pod["metadata"]
            path = PODS.path(metadata["namespace"], metadata["name"])
            if answer.node:
                binding = {"metadata": {"uid": metadata["uid"]}, "target": {"kind": "Node", "name": answer.node}}
                self._store.request("POST", f"{path}/binding", body=binding)
            elif patch := _unschedulable(answer):
                self._store.request("PATCH", f"{path}/status", body=patch, content_type=MERGE_PATCH)

    def _notice(self, change: Change) -> None:
        if change.resource in _WATCHED:
            self._changed.set()


def _unschedulable(answer: Placement) -> dict[str, object] | None:
    """The status patch that says so, or None where it has been said."""
    conditions = answer.pod.get("status", {}).get("conditions", [])
    if any(c["type"] == "PodScheduled" and c.get("message") == answer.why for c in conditions):
        return None
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": answer.why,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"status": {"conditions": [*(c for c in conditions if c["type"] != "PodScheduled"), condition]}}
