"""What the garbage collector and the namespace controller delete: a pure function of all objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.lab.cluster.resources import NAMESPACES, Resource


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object to delete; ``forget`` = remove it without further ado (a namespace that has become empty)."""

    resource: Resource
    object: dict[str, Any]
    forget: bool = False


def garbage(tables: Mapping[Resource, Sequence[dict[str, Any]]]) -> Iterator[Deletion]:
    """Objects that lost all their owners, everything in a Terminating namespace, and such a namespace once empty.

    An owner of a kind that is not served counts as alive: the collector cannot look it up.
    """
    uids = {obj["metadata"]["uid"] for objects in tables.values() for obj in objects}
    kinds = {(resource.api_version, resource.kind) for resource in tables}
    ending = {n["metadata"]["name"] for n in tables[NAMESPACES] if "deletionTimestamp" in n["metadata"]}
    occupied = set()
    for resource, objects in tables.items():
        if not resource.namespaced:
            continue
        for obj in objects:
            metadata = obj["metadata"]
            owners = metadata.get("ownerReferences") or []
            orphaned = bool(owners) and not any(
                owner["uid"] in uids or (owner["apiVersion"], owner["kind"]) not in kinds for owner in owners
            )
            if metadata["namespace"] in ending:
                occupied.add(metadata["namespace"])
                orphaned = True
            if orphaned and "deletionTimestamp" not in metadata:
                yield Deletion(resource, obj)
    for namespace in tables[NAMESPACES]:
        if namespace["metadata"]["name"] in ending - occupied:
            yield Deletion(NAMESPACES, namespace, forget=True)
