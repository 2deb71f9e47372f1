"""List and watch of a few kinds, kept in memory, with an index from owner to owned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

import aiohttp

from console.lab.cluster.client import ApiError, Client
from console.lab.cluster.resources import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]
Key = tuple[str, str]
Event = Literal["CHANGED", "DELETED"]

RETRY_S = 0.2
ABSENT_KIND_S = 1.0


class Cache:
    """``on_event`` hears of every change, after it is in the cache. It must not block."""

    def __init__(
        self, client: Client, resources: Sequence[Resource], on_event: Callable[[Event, Resource, Object], None]
    ) -> None:
        self._client, self._resources, self._on_event = client, resources, on_event
        self._objects: dict[Resource, dict[Key, Object]] = {resource: {} for resource in resources}
        self._owned: dict[str, dict[tuple[Resource, Key], Object]] = {}
        self._seen: dict[Resource, int] = {}
        self._absent: set[Resource] = set()
        self._listed = {resource: asyncio.Event() for resource in resources}

    async def run(self) -> None:
        """Follow every kind until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource in self._resources:
                tasks.create_task(self._follow(resource), name=f"watch {resource.plural}")

    async def synced(self) -> None:
        """Every kind has been listed once (or is not served)."""
        for listed in self._listed.values():
            await listed.wait()

    def served(self, resource: Resource) -> bool:
        """Whether the API server knows this kind."""
        return resource not in self._absent

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        return self._objects[resource].get((namespace, name))

    def all(self, resource: Resource) -> list[Object]:
        """Every object of a kind."""
        return list(self._objects[resource].values())

    def owned(self, resource: Resource, uid: str) -> list[Object]:
        """Objects of a kind whose controller is the object with this UID, by name."""
        found = [(key, obj) for (kind, key), obj in self._owned.get(uid, {}).items() if kind is resource]
        return [obj for _, obj in sorted(found, key=lambda pair: pair[0])]

    def learn(self, resource: Resource, obj: Object) -> None:
        """Take in the answer of an own write at once, unless the watch is already past it."""
        if _version(obj) > self._seen.get(resource, 0):
            self._store(resource, obj)

    async def _follow(self, resource: Resource) -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(resource)
                async for event in self._client.watch(resource, version):
                    version = event.object["metadata"]["resourceVersion"]
                    self._seen[resource] = int(version)
                    if event.type != "BOOKMARK":
                        self._take(resource, event.object, deleted=event.type == "DELETED")
            except ApiError as error:
                version = ""
                if error.status == 404:
                    self._absent.add(resource)
                    self._listed[resource].set()
                    await asyncio.sleep(ABSENT_KIND_S)
                elif error.status != 410:
                    log.warning("%s: will list again in %.1f s", error, RETRY_S)
                    await asyncio.sleep(RETRY_S)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.info("watch of %s broke (%r): resuming in %.1f s", resource.plural, error, RETRY_S)
                await asyncio.sleep(RETRY_S)

    async def _list(self, resource: Resource) -> str:
        objects, version = await self._client.list_all(resource)
        self._absent.discard(resource)
        self._seen[resource] = int(version)
        present = {_key(obj): obj for obj in objects}
        for key, old in list(self._objects[resource].items()):
            # The same name with another UID is a deletion and a creation.
            if present.get(key, {"metadata": {"uid": ""}})["metadata"]["uid"] != old["metadata"]["uid"]:
                self._take(resource, old, deleted=True)
        for obj in objects:
            self._take(resource, obj, deleted=False)
        self._listed[resource].set()
        return version

    def _take(self, resource: Resource, obj: Object, *, deleted: bool) -> None:
        known = self._objects[resource].get(_key(obj))
        if known is not None and _version(known) > _version(obj):
            return  # an own write came first
        if deleted:
            self._objects[resource].pop(_key(obj), None)
            self._unindex(resource, obj)
        else:
            self._store(resource, obj)
        self._on_event("DELETED" if deleted else "CHANGED", resource, obj)

    def _store(self, resource: Resource, obj: Object) -> None:
        key = _key(obj)
        if known := self._objects[resource].get(key):
            self._unindex(resource, known)
        self._objects[resource][key] = obj
        if owner := controller(obj):
            self._owned.setdefault(owner["uid"], {})[resource, key] = obj

    def _unindex(self, resource: Resource, obj: Object) -> None:
        if owner := controller(obj):
            mates = self._owned.get(owner["uid"], {})
            mates.pop((resource, _key(obj)), None)
            if not mates:
                self._owned.pop(owner["uid"], None)


def controller(obj: Object) -> Object | None:
    """The owner reference with ``controller: true``."""
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def _key(obj: Object) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
