"""A cluster in which the stand-in operators run, seen through a cache: the lab's own or a real control plane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from console.lab.cluster import crds
from console.lab.cluster.client import Access, ApiError, Client
from console.lab.cluster.lab import LabCluster
from console.lab.cluster.operators.ascendjob import LEDGER, LEDGER_KEY, AscendJobOperator
from console.lab.cluster.operators.ascendjob_objects import group_name
from console.lab.cluster.operators.cache import Cache
from console.lab.cluster.operators.infer_operator import InferOperator
from console.lab.cluster.operators.podgroups import PodGroupPhases
from console.lab.cluster.operators.stormservice import StormServiceOperator
from console.lab.cluster.resources import (
    ASCENDJOBS,
    BY_PLURAL,
    CONFIGMAPS,
    CRDS,
    INFERSERVICES,
    INFERSERVICESETS,
    INSTANCESETS,
    NAMESPACES,
    PODGROUPS,
    PODS,
    PODSETS,
    ROLESETS,
    STATEFULSETS,
    STORMSERVICES,
    Resource,
)
from shared.aio import running
from tests.waiting import eventually

Object = dict[str, Any]

SEEN = (
    PODS,
    ASCENDJOBS,
    PODGROUPS,
    STORMSERVICES,
    ROLESETS,
    PODSETS,
    INFERSERVICESETS,
    INFERSERVICES,
    INSTANCESETS,
    STATEFULSETS,
)
SERVED_WITHIN_S = 10


class World:
    """What a test does to a namespace of a cluster, and what it sees there."""

    def __init__(self, api: Client, cache: Cache, namespace: str, node_selector: dict[str, str]) -> None:
        self.api = api
        self.namespace = namespace
        self.node_selector = node_selector
        self._cache = cache

    async def apply(self, obj: Object) -> Object:
        resource = next(r for r in BY_PLURAL.values() if (r.api_version, r.kind) == (obj["apiVersion"], obj["kind"]))
        return await self.api.create(resource, obj)

    def see(self, resource: Resource, name: str) -> Object | None:
        return self._cache.get(resource, self.namespace, name)

    def all(self, resource: Resource) -> dict[str, Object]:
        mine = [obj for obj in self._cache.all(resource) if obj["metadata"]["namespace"] == self.namespace]
        return {obj["metadata"]["name"]: obj for obj in sorted(mine, key=lambda obj: str(obj["metadata"]["name"]))}

    def pods(self) -> dict[str, Object]:
        return self.all(PODS)

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def has(self, job: str, condition: str) -> bool:
        """Whether a condition of an AscendJob is true."""
        status = (self.see(ASCENDJOBS, job) or {}).get("status") or {}
        return any(c["type"] == condition and c["status"] == "True" for c in status.get("conditions", []))

    async def running(self, count: int, but: dict[str, str] | None = None) -> dict[str, Object]:
        """The pods of the namespace once exactly ``count`` exist and all run, none of them with a UID of ``but``."""
        old = set((but or {}).values())

        def look() -> bool:
            pods = self.pods().values()
            return len(pods) == count and all(
                pod["status"].get("phase") == "Running" and pod["metadata"]["uid"] not in old for pod in pods
            )

        await eventually(f"{count} running pods in {self.namespace}", look)
        return self.pods()

    async def until(self, what: str, look: Callable[[], object]) -> None:
        await eventually(what, look)

    async def force(self, *names: str) -> None:
        """Delete pods with grace 0 and their UIDs."""
        uids = self.uids()
        for name in names:
            await self.api.delete(PODS, self.namespace, name, uid=uids[name], grace_s=0)

    async def fail(self, name: str, exit_code: int = 1) -> None:
        """The pod's containers have ended."""
        ended = {"name": "ascend", "restartCount": 0, "ready": False, "image": "none", "imageID": ""}
        state = {"state": {"terminated": {"exitCode": exit_code}}}
        status = {"phase": "Failed", "containerStatuses": [{**ended, **state}]}
        await self.api.merge(PODS, self.namespace, name, {"status": status}, subresource="status")

    async def keep_retries(self, job: Object, times: int) -> None:
        """Write the retry ledger, as Volcano's plugin or the warden does."""
        entry = {"UUID": job["metadata"]["uid"], "Times": times}
        data = {LEDGER_KEY: json.dumps({f"{self.namespace}/{group_name(job)}": entry})}
        namespace, name = LEDGER
        await _unless_there(self.api.create(NAMESPACES, {"metadata": {"name": namespace}}))
        await _unless_there(self.api.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": namespace}}))
        await self.api.merge(CONFIGMAPS, namespace, name, {"data": data})


@asynccontextmanager
async def lab_world() -> AsyncIterator[tuple[World, LabCluster]]:
    """Six nodes of eight chips in the lab."""
    async with (
        LabCluster(nodes=6, ready_s=0.05, stop_s=0.05) as lab,
        Client(Access(lab.url)) as api,
        _seen(api) as cache,
    ):
        yield World(api, cache, "default", {}), lab


@asynccontextmanager
async def real_world(access: Access, namespace: str) -> AsyncIterator[World]:
    """The operators against a control plane that has nodes for this namespace (label ``test``)."""
    async with Client(access) as api:
        for definition in crds.definitions():
            await _unless_there(api.create(CRDS, definition))
        for resource in SEEN:
            await _served(api, resource)
        operators = (AscendJobOperator, PodGroupPhases, StormServiceOperator, InferOperator)
        async with running(*(operator(api).run() for operator in operators)), _seen(api) as cache:
            yield World(api, cache, namespace, {"test": namespace})


@asynccontextmanager
async def _seen(api: Client) -> AsyncIterator[Cache]:
    cache = Cache(api, SEEN, lambda *_: None)
    async with running(cache.run()):
        await cache.synced()
        yield cache


async def _served(api: Client, resource: Resource) -> None:
    for _ in range(SERVED_WITHIN_S * 20):
        try:
            await api.list_all(resource)
        except ApiError as error:
            if error.status not in (404, 429):  # not known yet; known, its storage being set up
                raise
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError(f"{resource.plural} are defined but not served after {SERVED_WITHIN_S} s")


async def _unless_there(create: Any) -> None:
    try:
        await create
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
