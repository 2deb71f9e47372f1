"""The loop stand-in operators share: events make a workload due, workers reconcile it, a resync repairs the rest."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any

import aiohttp

from console.lab.cluster.client import ApiError, Client
from console.lab.cluster.operators.cache import Cache, Event, controller
from console.lab.cluster.resources import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]
Due = tuple[Resource, str, str]

RESYNC_S = 1.0
RETRY_S = 0.05
WORKERS = 4


class Operator(ABC):
    """A level-triggered controller of the ``managed`` kinds; ``watched`` are the other kinds it reads from its cache.

    A workload is reconciled after every change of itself or of an object it controls, never twice at the same time.
    """

    managed: tuple[Resource, ...]
    watched: tuple[Resource, ...]

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cache = Cache(client, (*self.managed, *self.watched), self._on_event)
        self._kinds = {(r.api_version, r.kind): r for r in self.managed}
        self._due: dict[Due, None] = {}
        self._busy: set[Due] = set()
        self._wake = asyncio.Event()

    @abstractmethod
    async def reconcile(self, resource: Resource, obj: Object) -> None:
        """Bring one workload one step nearer to its spec. ``obj`` comes from the cache and must not be modified."""

    def on_deleted(self, resource: Resource, obj: Object) -> None:  # noqa: B027 (most operators need not count deletions)
        """Hear of every object that is gone, before its workload is reconciled."""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cache.run())
            await self.cache.synced()
            for _ in range(WORKERS):
                tasks.create_task(self._worker())
            tasks.create_task(self._resync())

    async def create(self, resource: Resource, obj: Object) -> None:
        """Create; an object of this name that is already there is left alone."""
        try:
            self.cache.learn(resource, await self.client.create(resource, obj))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def delete(self, resource: Resource, obj: Object) -> None:
        """Delete this very incarnation; one that is gone or replaced already is fine."""
        metadata = obj["metadata"]
        try:
            await self.client.delete(resource, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def merge(self, resource: Resource, obj: Object, patch: Object, subresource: str = "") -> None:
        """Merge-patch an object and remember the answer."""
        metadata = obj["metadata"]
        answer = await self.client.merge(
            resource, metadata["namespace"], metadata["name"], patch, subresource=subresource
        )
        self.cache.learn(resource, answer)

    def _on_event(self, event: Event, resource: Resource, obj: Object) -> None:
        if event == "DELETED":
            self.on_deleted(resource, obj)
        namespace, owner = obj["metadata"].get("namespace", ""), controller(obj)
        if resource in self.managed:
            self._make_due((resource, namespace, obj["metadata"]["name"]))
        if owner and (kind := self._kinds.get((owner["apiVersion"], owner["kind"]))):
            self._make_due((kind, namespace, owner["name"]))

    def _make_due(self, due: Due) -> None:
        self._due[due] = None
        self._wake.set()

    async def _resync(self) -> None:
        while True:
            for resource in self.managed:
                for obj in self.cache.all(resource):
                    self._make_due((resource, obj["metadata"]["namespace"], obj["metadata"]["name"]))
            await asyncio.sleep(RESYNC_S)

    async def _worker(self) -> None:
        while True:
            due = next((due for due in self._due if due not in self._busy), None)
            if due is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            del self._due[due]
            self._busy.add(due)
            try:
                await self._reconcile(due)
            finally:
                self._busy.discard(due)
                self._wake.set()

    async def _reconcile(self, due: Due) -> None:
        resource, namespace, name = due
        obj = self.cache.get(resource, namespace, name)
        if obj is None:
            return
        try:
            await self.reconcile(resource, obj)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            log.info(
                "%s %s/%s: %s: trying again in %.2f s", resource.kind, namespace, name, error or repr(error), RETRY_S
            )
            asyncio.get_running_loop().call_later(RETRY_S, self._make_due, due)
