"""The cluster under the storm: the lab's own in this process, or the real control plane. To the storm it is one."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from console.lab.cluster import journal
from console.lab.cluster.lab import LabCluster
from console.lab.cluster.patches import MERGE_PATCH
from console.lab.cluster.resources import BY_PLURAL
from tests.chaos.record import Change, Object
from tests.cluster.api import ApiError
from tests.integration.journal import Journal
from tests.integration.rig import Rig

GONE_OR_CHANGED = (404, 409, 422)
KINDS = {BY_PLURAL[plural]: BY_PLURAL[plural].kind for plural in ("nodes", "pods", "recoveries", "leases")}


class World(Protocol):
    """nodes: their names. changes: of nodes, pods, recoveries and leases since the beginning, in the server's order."""

    @property
    def nodes(self) -> Sequence[str]: ...
    @property
    def changes(self) -> list[Change]: ...
    async def pods(self) -> list[Object]: ...
    async def node_objects(self) -> list[Object]:
        """Every node."""
        ...

    async def recoveries(self) -> list[Object]: ...
    async def power(self, node: str, *, on: bool) -> None: ...
    async def fail(self, pod: Object) -> bool:
        """The pod's containers end; False: it has gone or been replaced meanwhile."""
        ...

    async def patch(self, path: str, body: Object) -> bool:
        """A merge patch by an administrator; False: the object is not there or has changed."""
        ...

    async def create(self, path: str, body: Object) -> None: ...
    def cut_watches(self) -> None: ...


class LabWorld:
    def __init__(self, lab: LabCluster) -> None:
        self.nodes = [node["metadata"]["name"] for node in lab.store.objects("nodes")]
        self.changes: list[Change] = []
        self._lab, self._store = lab, lab.store
        for resource, kind in KINDS.items():
            for obj in self._store.objects(resource.plural):
                self._keep(int(obj["metadata"]["resourceVersion"]), kind, "ADDED", obj)
        self._unlisten = self._store.listen(self._seen)

    def close(self) -> None:
        self._unlisten()

    async def pods(self) -> list[Object]:
        return self._store.objects("pods")

    async def node_objects(self) -> list[Object]:
        return self._store.objects("nodes")

    async def recoveries(self) -> list[Object]:
        return self._store.objects("recoveries")

    async def power(self, node: str, *, on: bool) -> None:
        (self._lab.kubelets.revive if on else self._lab.kubelets.kill)(node)

    async def fail(self, pod: Object) -> bool:
        meta = pod["metadata"]
        standing = self._store.get("pods", meta["namespace"], meta["name"])
        if standing is None or standing["metadata"]["uid"] != meta["uid"]:
            return False
        self._lab.kubelets.fail(meta["namespace"], meta["name"])
        return True

    async def patch(self, path: str, body: Object) -> bool:
        reply = self._store.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        assert reply.status in (200, *GONE_OR_CHANGED), reply
        return reply.status == 200

    async def create(self, path: str, body: Object) -> None:
        reply = self._store.request("POST", path, body=body)
        assert reply.status == 201, reply

    def cut_watches(self) -> None:
        self._lab.server.cut_watches()
        self._store.compact()

    def _seen(self, change: journal.Change) -> None:
        if kind := KINDS.get(change.resource):
            self._keep(change.resource_version, kind, change.type, change.object)

    def _keep(self, version: int, kind: str, what: str, obj: Object) -> None:
        self.changes.append(Change(version, time.monotonic(), kind, what, obj))


class PlaneWorld:
    """On the control plane of the tests; its Rig's calls block, so they run in threads."""

    def __init__(self, rig: Rig, leases: Journal) -> None:
        self.nodes = list(rig.nodes)
        self._rig, self._leases = rig, leases

    @property
    def changes(self) -> list[Change]:
        entries = [*self._rig.journal.entries, *self._leases.entries]
        found = [Change(e.version, e.at, e.kind, e.change, e.object) for e in entries]
        return sorted(found, key=lambda change: change.version)

    async def pods(self) -> list[Object]:
        return list((await asyncio.to_thread(self._rig.pods)).values())

    async def node_objects(self) -> list[Object]:
        return [await asyncio.to_thread(self._rig.node, name) for name in self.nodes]

    async def recoveries(self) -> list[Object]:
        return await asyncio.to_thread(self._rig.recoveries)

    async def power(self, node: str, *, on: bool) -> None:
        plane = self._rig.plane
        await asyncio.to_thread(plane.revive_node if on else plane.kill_node, node)

    async def fail(self, pod: Object) -> bool:
        meta = pod["metadata"]
        ended = {"name": "ascend", "restartCount": 0, "ready": False, "image": "none", "imageID": ""}
        containers = [{**ended, "state": {"terminated": {"exitCode": 1}}}]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"phase": "Failed", "containerStatuses": containers}}
        return await self.patch(path, patch)

    async def patch(self, path: str, body: Object) -> bool:
        try:
            await asyncio.to_thread(self._rig.api.merge_patch, path, body)
        except ApiError as exc:
            if exc.status not in GONE_OR_CHANGED:
                raise
            return False
        return True

    async def create(self, path: str, body: Object) -> None:
        await asyncio.to_thread(self._rig.api.post, path, body)

    def cut_watches(self) -> None:
        """The proxies do that here."""
