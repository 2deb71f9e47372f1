"""Stand-in for AIBrix's controllers: StormService -> RoleSet -> PodSet (podGroupSize > 1) -> pods, as observed.

What matters to whoever deletes pods: a missing pod of a PodSet is back within milliseconds under its old name, a Failed
one stays until somebody deletes it, and a Terminating one holds its name. A Failed pod of size 1 is deleted and
re-created by the RoleSet itself, wherever the scheduler puts it.
"""

from __future__ import annotations

from typing import Any

from console.lab.cluster.operators import storm_objects as objects
from console.lab.cluster.operators.operator import Operator
from console.lab.cluster.placement import finished
from console.lab.cluster.resources import PODGROUPS, PODS, PODSETS, ROLESETS, STORMSERVICES, Resource

Object = dict[str, Any]

_CHILDREN: dict[Resource, tuple[Resource, ...]] = {
    STORMSERVICES: (ROLESETS,),
    ROLESETS: (PODSETS, PODS),
    PODSETS: (PODS,),
}


class StormServiceOperator(Operator):
    """Manages all three kinds of the chain."""

    managed = (STORMSERVICES, ROLESETS, PODSETS)
    watched = (PODS, PODGROUPS)

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        """End what is deleted, else bring the next level down into being."""
        if "deletionTimestamp" in obj["metadata"]:
            await self._end(resource, obj)
        elif resource is STORMSERVICES:
            await self._service(obj)
        elif resource is ROLESETS:
            await self._role_set(obj)
        else:
            await self._pod_set(obj)

    async def _end(self, resource: Resource, obj: Object) -> None:
        """Children first; the finalizer goes when the last of them is gone."""
        children = [(kind, c) for kind in _CHILDREN[resource] for c in self.cache.owned(kind, obj["metadata"]["uid"])]
        for kind, child in children:
            if "deletionTimestamp" not in child["metadata"]:
                await self.delete(kind, child)
        finalizers = obj["metadata"].get("finalizers") or []
        if not children and objects.FINALIZERS[resource] in finalizers:
            rest = [f for f in finalizers if f != objects.FINALIZERS[resource]]
            await self.merge(resource, obj, {"metadata": {"finalizers": rest or None}})

    async def _service(self, service: Object) -> None:
        if objects.FINALIZERS[STORMSERVICES] not in (service["metadata"].get("finalizers") or []):
            await self.merge(STORMSERVICES, service, {"metadata": {"finalizers": [objects.FINALIZERS[STORMSERVICES]]}})
        present = self.cache.owned(ROLESETS, service["metadata"]["uid"])
        for role_set in objects.role_sets(service, present):
            await self.create(ROLESETS, role_set)
        roles = service["spec"]["template"]["spec"]["roles"]
        wanted, kept = int(service["spec"].get("replicas", 1)), 0
        for role_set in present:
            if int(role_set["metadata"]["annotations"][f"{objects.PREFIX}/roleset-index"]) >= wanted:
                await self.delete(ROLESETS, role_set)
            elif role_set["spec"]["roles"] != roles:
                await self.merge(ROLESETS, role_set, {"spec": {"roles": roles}})
            else:
                kept += all(
                    r["readyReplicas"] == r["replicas"] for r in (role_set.get("status") or {}).get("roles", [])
                )
        await self._status(STORMSERVICES, service, {"replicas": len(present), "readyReplicas": kept})

    async def _role_set(self, role_set: Object) -> None:
        roles = role_set["spec"]["roles"]
        total = sum(int(role.get("replicas", 1)) * objects.size(role) for role in roles)
        await self._pod_group(ROLESETS, role_set, total)
        uid, statuses = role_set["metadata"]["uid"], []
        for role in roles:
            kind = PODSETS if objects.size(role) > 1 else PODS
            every = [*self.cache.owned(PODSETS, uid), *self.cache.owned(PODS, uid)]
            mine = [obj for obj in every if obj["metadata"]["labels"].get(objects.ROLE_LABEL) == role["name"]]
            present = [obj for obj in mine if obj["kind"] == kind.kind and self._current(obj, role)]
            ready = sum(1 for obj in present if _ready(obj))
            statuses.append({"name": role["name"], "replicas": int(role.get("replicas", 1)), "readyReplicas": ready})
            outdated = [obj for obj in mine if obj not in present]
            for obj in outdated:
                await self.delete(PODSETS if obj["kind"] == PODSETS.kind else PODS, obj)
            if outdated:
                break  # one role at a time: the next ones wait until this one has been rebuilt
            await self._fill(role_set, role, kind, present)
        else:
            await self._status(ROLESETS, role_set, {"roles": statuses})

    @staticmethod
    def _current(obj: Object, role: Object) -> bool:
        return bool(obj["metadata"]["labels"].get(objects.HASH_LABEL) == objects.template_hash(role))

    async def _fill(self, role_set: Object, role: Object, kind: Resource, present: list[Object]) -> None:
        """Create the replicas that are missing; of size 1 also delete the ones that have ended."""
        for obj in present:
            if kind is PODS and finished(obj) and "deletionTimestamp" not in obj["metadata"]:
                await self.delete(PODS, obj)
        index_of = f"{objects.PREFIX}/role-replica-index"
        taken = {int(obj["metadata"]["annotations"][index_of]) for obj in present}
        for index in range(int(role.get("replicas", 1))):
            if index in taken:
                continue
            if kind is PODSETS:
                await self.create(PODSETS, objects.pod_set(role_set, role, index))
            else:
                await self.create(PODS, objects.pod_of_role_set(role_set, role, index))
        for obj in present:
            if int(obj["metadata"]["annotations"][index_of]) >= int(role.get("replicas", 1)):
                await self.delete(kind, obj)

    async def _pod_set(self, pod_set: Object) -> None:
        metadata, wanted = pod_set["metadata"], int(pod_set["spec"]["podGroupSize"])
        await self._pod_group(PODSETS, pod_set, wanted)
        pods = self.cache.owned(PODS, metadata["uid"])
        # Terminating pods count as active here, so nothing replaces one that hangs on a dead node.
        active = [pod for pod in pods if not finished(pod)]
        restarted = [pod for pod in active if _restarts(pod) > 0]
        if len(active) < wanted and restarted:
            for pod in restarted:
                await self.delete(PODS, pod)
        elif len(active) < wanted:
            role_set = self.cache.get(ROLESETS, metadata["namespace"], metadata["labels"]["roleset-name"])
            names = {pod["metadata"]["name"] for pod in pods}
            for index in range(wanted):
                if f"{metadata['name']}-{index}" not in names:
                    await self.create(PODS, objects.pod_of_pod_set(pod_set, role_set, index))
        ready = sum(1 for pod in active if _ready(pod))
        phase = "Ready" if ready >= wanted else "Running" if ready else "Pending"
        await self._status(PODSETS, pod_set, {"phase": phase, "readyPods": ready, "totalPods": len(active)})

    async def _pod_group(self, resource: Resource, obj: Object, members: int) -> None:
        group = objects.pod_group(resource, obj, members)
        exists = self.cache.get(PODGROUPS, obj["metadata"]["namespace"], obj["metadata"]["name"])
        if group and not exists and self.cache.served(PODGROUPS):
            await self.create(PODGROUPS, group)

    async def _status(self, resource: Resource, obj: Object, status: Object) -> None:
        if (obj.get("status") or {}) != status:
            await self.merge(resource, obj, {"status": status}, "status")


def _ready(obj: Object) -> bool:
    status = obj.get("status") or {}
    if obj["kind"] == PODSETS.kind:
        return bool(status.get("phase") == "Ready")
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


def _restarts(pod: Object) -> int:
    return sum(int(c.get("restartCount", 0)) for c in pod["status"].get("containerStatuses", []))
