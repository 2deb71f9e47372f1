"""The lab cluster's objects and their history: what etcd holds, with a version that grows by one at every write.

Objects are never changed in place, so what ``get``, ``objects`` and changes hand out is shared: read only.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from console.lab.cluster.journal import Change, ChangeType, Journal, Listener
from console.lab.cluster.patches import clone
from console.lab.cluster.resources import BY_PLURAL, NAMESPACES, RESOURCES, Resource
from console.lab.cluster.rules import Object

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # as the API server: no vowels, nothing that looks like another


class Objects:
    """All objects of one cluster.

    ``now`` is the wall clock in epoch seconds. Kinds whose plural is in ``without`` are not served, as in a cluster
    without their CustomResourceDefinition. ``history`` changes are kept for watches to resume from.
    """

    def __init__(self, now: Callable[[], float], *, without: Collection[str] = (), history: int = 10_000) -> None:
        if unknown := set(without) - set(BY_PLURAL):
            raise ValueError(f"no such kind in the lab: {', '.join(sorted(unknown))}")
        self.resources = tuple(r for r in RESOURCES if r.plural not in without)
        self.version = 1
        self._now = now
        self._random = random.Random(0)
        self._tables: dict[Resource, dict[tuple[str, str], Object]] = {r: {} for r in self.resources}
        self._journal = Journal(history)
        for namespace in ("default", "kube-system"):
            self.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        """One object (``namespace`` is "" for cluster-wide kinds), or None."""
        return self._tables[BY_PLURAL[plural]].get((namespace, name))

    def objects(self, plural: str) -> list[Object]:
        """All objects of a kind, by namespace and name."""
        return [obj for _, obj in sorted(self._tables[BY_PLURAL[plural]].items())]

    def load(self, obj: Object) -> Object:
        """Put an object in as it is, status, UID and all; makes its namespace if there is none."""
        wanted = (obj["apiVersion"], obj["kind"])
        resource = next((r for r in self.resources if (r.api_version, r.kind) == wanted), None)
        if resource is None:
            raise ValueError(f"the lab serves no {wanted[0]} {wanted[1]}")
        obj = clone(obj)
        metadata = obj["metadata"]
        if resource.namespaced:
            namespace = metadata.setdefault("namespace", "default")
            if self.get("namespaces", "", namespace) is None:
                self.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if resource is NAMESPACES:
            obj = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}} | obj
        metadata.setdefault("uid", self._uid())
        metadata.setdefault("creationTimestamp", self._timestamp())
        return self._put(resource, obj)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of every change at once; the answer ends it. The listener must neither block nor write."""
        return self._journal.listen(listener)

    def watch_since(self, resource: Resource, resource_version: int) -> list[Change]:
        """Changes of one kind after a version; raises the 410 Problem when they are forgotten."""
        return self._journal.since(resource, resource_version)

    def compact(self) -> None:
        """Forget the history: watches that resume from before get 410."""
        self._journal.compact()

    def _put(self, resource: Resource, obj: Object) -> Object:
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        previous = self._tables[resource].get(key)
        stored = self._versioned(obj)
        self._tables[resource][key] = stored
        self._record("MODIFIED" if previous else "ADDED", resource, stored, previous)
        return stored

    def _remove(self, resource: Resource, obj: Object) -> Object:
        previous = self._tables[resource].pop((obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        gone = self._versioned(obj)
        self._record("DELETED", resource, gone, previous)
        return gone

    def _versioned(self, obj: Object) -> Object:
        self.version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}

    def _record(self, kind: ChangeType, resource: Resource, obj: Object, previous: Object | None) -> None:
        self._journal.append(Change(self.version, kind, resource, obj, previous))

    def _generated(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices(_SUFFIX_LETTERS, k=5)) if prefix else ""

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _timestamp(self, after_s: float = 0) -> str:
        return datetime.fromtimestamp(self._now() + after_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
