"""What happens to pods by itself in a virtual cluster: they end, come back under their name, are bound, become Ready.

Stands for kubelets, the scheduler and the workload controllers, reduced to one rule for all of them (`Recreate`).
Writes by loading objects: what the API server refuses to the warden does not concern them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from console.lab.cluster.journal import Change
from console.lab.cluster.resources import PODS
from console.lab.cluster.store import Store
from console.scenario.virtual_clock import Clock
from console.scenario.virtual_objects import Object, bound, running, unscheduled

KEPT_METADATA = ("name", "namespace", "generateName", "labels", "annotations", "ownerReferences")
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
ROUNDING_S = 1e-9
"""Sums of decimal fractions differ in their last bits; what is due within this is due."""


@dataclass(frozen=True, slots=True)
class Recreate:
    """How a deleted pod comes back.

    after: seconds from the pod being gone to its successor. ready: seconds from binding to Ready. nodes: where
    successors may run, first choice first.
    """

    after: float = 3
    ready: float = 10
    nodes: tuple[str, ...] = ("node-x", "node-y", "node-z")


@dataclass(order=True, slots=True)
class _Due:
    at: float
    order: int
    do: Callable[[], None] = field(compare=False)


class PodLife:
    """`step` does what is due now, `next_due` says when to come back. `recreate` None: nothing ever comes back."""

    def __init__(self, store: Store, clock: Clock, recreate: Recreate | None) -> None:
        self._store = store
        self._clock = clock
        self._recreate = recreate
        self._due: list[_Due] = []
        self._order = itertools.count()
        self._unbound: list[Object] = []
        self._stuck: set[str] = set()
        self._gone_owners: set[str] = set()
        self._successors: dict[str, str] = {}
        self._ips = itertools.count(1)
        store.listen(self._seen)

    def stick(self, node: str) -> None:
        """From now on no pod on this node ends by itself."""
        self._stuck.add(node)

    def is_stuck(self, node: str | None) -> bool:
        return node in self._stuck

    def step(self) -> None:
        """Everything that is due at the clock's time, in the order of due times."""
        while self._due and self._due[0].at <= self._clock.t + ROUNDING_S:
            heapq.heappop(self._due).do()
        self._bind()

    def next_due(self) -> float | None:
        return self._due[0].at if self._due else None

    def _plan(self, after_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, _Due(self._clock.t + after_s, next(self._order), do))

    def _seen(self, change: Change) -> None:
        obj, metadata = change.object, change.object["metadata"]
        if change.resource is not PODS:
            if change.type == "DELETED":
                self._gone_owners.add(metadata["uid"])
        elif change.type == "DELETED":
            if self._recreate is not None and self._comes_back(obj):
                self._plan(self._recreate.after, lambda: self._create_successor(obj))
        elif "deletionTimestamp" in metadata:
            self._plan(metadata.get("deletionGracePeriodSeconds", 0), lambda: self._end(obj))

    def _comes_back(self, pod: Object) -> bool:
        """Only a controller brings pods back: not for a bare pod, not for one whose controller was deleted."""
        owners = pod["metadata"].get("ownerReferences") or []
        controller = next((owner for owner in owners if owner.get("controller")), None)
        return controller is not None and controller["uid"] not in self._gone_owners

    def _current(self, pod: Object) -> Object | None:
        """This very incarnation as it is now."""
        metadata = pod["metadata"]
        found = self._store.get("pods", metadata["namespace"], metadata["name"])
        return found if found is not None and found["metadata"]["uid"] == metadata["uid"] else None

    def _end(self, pod: Object) -> None:
        current = self._current(pod)
        if current is not None and not self.is_stuck(current["spec"].get("nodeName")):
            metadata = current["metadata"]
            self._store.finish(metadata["namespace"], metadata["name"], metadata["uid"])

    def _create_successor(self, old: Object) -> None:
        metadata = old["metadata"]
        namespace = self._store.get("namespaces", "", metadata["namespace"])
        closing = namespace is not None and "deletionTimestamp" in namespace["metadata"]
        taken = self._store.get("pods", metadata["namespace"], metadata["name"]) is not None
        if closing or taken or not self._comes_back(old):
            return
        kept = {key: metadata[key] for key in KEPT_METADATA if key in metadata}
        kept["ownerReferences"] = [
            {**owner, "uid": self._newest(owner["uid"])} for owner in metadata.get("ownerReferences") or []
        ]
        if version := _next_version(kept):
            kept["labels"] = {**kept["labels"], "version": version}
        spec = {key: value for key, value in old["spec"].items() if key != "nodeName"}
        new = self._store.load(
            {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec, "status": {"phase": "Pending"}}
        )
        self._successors[metadata["uid"]] = new["metadata"]["uid"]
        self._repoint(metadata["uid"], new["metadata"]["uid"])
        self._unbound.append(new)

    def _newest(self, uid: str) -> str:
        while uid in self._successors:
            uid = self._successors[uid]
        return uid

    def _repoint(self, old_uid: str, new_uid: str) -> None:
        """What a pod owned (the workers of a leader pod) belongs to its successor."""
        for resource in self._store.resources:
            for obj in self._store.objects(resource.plural):
                owners = obj["metadata"].get("ownerReferences") or []
                if any(owner["uid"] == old_uid for owner in owners):
                    owners = [{**o, "uid": new_uid} if o["uid"] == old_uid else o for o in owners]
                    self._store.load({**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}})

    def _bind(self) -> None:
        waiting, self._unbound = self._unbound, []
        for pod in waiting:
            current = self._current(pod)
            if current is None or current["spec"].get("nodeName"):
                continue
            node = self._place(current)
            if node is None:
                self._unbound.append(pod)
                if not any(c["type"] == "PodScheduled" for c in current["status"].get("conditions") or []):
                    self._store.load(unscheduled(current, self._clock.timestamp()))
                continue
            self._store.load(bound(current, node, self._clock.timestamp()))
            assert self._recreate is not None
            self._plan(self._recreate.ready, lambda pod=pod: self._make_ready(pod))  # type: ignore[misc]

    def _place(self, pod: Object) -> str | None:
        assert self._recreate is not None
        for name in self._recreate.nodes:
            node = self._store.get("nodes", "", name)
            if node is not None and not _blocked(node) and self._has_room(node, pod):
                return name
        return None

    def _has_room(self, node: Object, pod: Object) -> bool:
        free = _npus((node.get("status") or {}).get("allocatable") or {})
        for other in self._store.objects("pods"):
            on_node = other["spec"].get("nodeName") == node["metadata"]["name"]
            if on_node and (other.get("status") or {}).get("phase") not in ("Failed", "Succeeded"):
                for resource, count in _requested(other).items():
                    free[resource] = free.get(resource, 0) - count
        return all(free.get(resource, 0) >= count for resource, count in _requested(pod).items())

    def _make_ready(self, pod: Object) -> None:
        current = self._current(pod)
        if current is None or "deletionTimestamp" in current["metadata"] or current["status"]["phase"] != "Pending":
            return
        node = self._store.get("nodes", "", current["spec"]["nodeName"])
        host_ip = _internal_ip(node) if node else None
        pod_ip = f"10.244.200.{next(self._ips)}"
        self._store.load(running(current, host_ip=host_ip, pod_ip=pod_ip, at=self._clock.timestamp()))


def _next_version(metadata: Object) -> str | None:
    """The label `version` of an AscendJob pod's successor: its operator counts the rounds."""
    by_operator = any(owner["kind"] == "AscendJob" for owner in metadata["ownerReferences"])
    version = str((metadata.get("labels") or {}).get("version", ""))
    return str(int(version) + 1) if by_operator and version.isdigit() else None


def _blocked(node: Object) -> bool:
    return any(taint.get("effect") in BLOCKING_EFFECTS for taint in (node.get("spec") or {}).get("taints") or [])


def _npus(quantities: dict[str, Any]) -> dict[str, int]:
    return {name: int(n) for name, n in quantities.items() if name.startswith("huawei.com/") and str(n).isdigit()}


def _requested(pod: Object) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod["spec"].get("containers") or []:
        resources = container.get("resources") or {}
        for name, count in _npus(resources.get("requests") or resources.get("limits") or {}).items():
            total[name] = total.get(name, 0) + count
    return total


def _internal_ip(node: Object) -> str | None:
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), None)
