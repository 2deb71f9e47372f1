"""Stand-in for MindCluster's infer-operator: InferServiceSet -> InferService -> InstanceSet -> StatefulSets, as read.

What matters to whoever restarts pods: an instance one of whose pods is marked (`huawei.com/pod-status` begins with
`Unhealthy`) is rebuilt: its workload and its pods are deleted, then it is made anew under the same name. With gang
scheduling the deletion of any pod has the same effect. Pods that terminate already are not looked at. Its Deployment is
for the caller to apply: the operator works as long as this task runs.
"""

from __future__ import annotations

from typing import Any

from console.lab.cluster.client import ApiError, Client
from console.lab.cluster.operators import infer_objects as objects
from console.lab.cluster.operators.cache import Event
from console.lab.cluster.operators.operator import Operator
from console.lab.cluster.resources import (
    INFERSERVICES,
    INFERSERVICESETS,
    INSTANCESETS,
    PODGROUPS,
    PODS,
    STATEFULSETS,
    Resource,
)

Object = dict[str, Any]

MARK = "huawei.com/pod-status"
FAILED = "Unhealthy-pod-failed"


class InferOperator(Operator):
    """Manages all three kinds of the chain; instances are StatefulSets."""

    managed = (INFERSERVICESETS, INFERSERVICES, INSTANCESETS)
    watched = (STATEFULSETS, PODS, PODGROUPS)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._rebuilds: dict[tuple[str, str], str] = {}
        """By (namespace, workload): UID of the workload that is being replaced."""
        self._failures: dict[tuple[str, str], int] = {}

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        """Bring the next level down into being; rebuild instances that are marked."""
        if "deletionTimestamp" in obj["metadata"]:
            return
        if resource is INFERSERVICESETS:
            for service in objects.services(obj):
                await self._make(INFERSERVICES, service)
        elif resource is INFERSERVICES:
            for role_set in objects.instance_sets(obj):
                await self._make(INSTANCESETS, role_set)
        else:
            await self._instances(obj)

    def on_deleted(self, resource: Resource, obj: Object) -> None:
        """With gang scheduling an instance that has lost a pod is rebuilt."""
        name = objects.workload_of(obj) if resource is PODS else None
        if name is None:
            return
        namespace = obj["metadata"]["namespace"]
        current = self.cache.get(STATEFULSETS, namespace, name)
        gang = current is not None and current["metadata"]["labels"].get(objects.GANG) == "true"
        if current is not None and gang and _controller_uid(obj) == current["metadata"]["uid"]:
            self._rebuilds.setdefault((namespace, name), current["metadata"]["uid"])

    def _on_event(self, event: Event, resource: Resource, obj: Object) -> None:
        super()._on_event(event, resource, obj)
        if resource is PODS and (name := objects.workload_of(obj)) is not None:
            self._make_due((INSTANCESETS, obj["metadata"]["namespace"], name.rpartition("-")[0]))

    async def _instances(self, role_set: Object) -> None:
        namespace = role_set["metadata"]["namespace"]
        for index in range(int(role_set["spec"].get("replicas", 1))):
            key = namespace, objects.instance_name(role_set, index)
            current = self.cache.get(STATEFULSETS, *key)
            if current is not None and key not in self._rebuilds and self._is_marked(current):
                self._rebuilds[key] = current["metadata"]["uid"]
            if current is not None and self._rebuilds.get(key) == current["metadata"]["uid"]:
                await self._tear_down(current)
            elif current is None:
                if group := objects.pod_group(role_set, index):
                    await self._make(PODGROUPS, group)
                await self._make(STATEFULSETS, objects.workload(role_set, index))
            else:
                self._rebuilds.pop(key, None)

    def _is_marked(self, workload: Object) -> bool:
        for pod in self.cache.owned(PODS, workload["metadata"]["uid"]):
            mark = (pod["metadata"].get("annotations") or {}).get(MARK, "")
            if "deletionTimestamp" in pod["metadata"] or not mark.startswith("Unhealthy"):
                continue
            if mark != FAILED or self._may_retry(pod):
                return True
        return False

    def _may_retry(self, pod: Object) -> bool:
        key = pod["metadata"]["namespace"], str(objects.workload_of(pod))
        text = pod["metadata"]["labels"].get("fault-retry-times", "")
        if not text.isdecimal() or self._failures.get(key, 0) >= int(text):
            return False
        self._failures[key] = self._failures.get(key, 0) + 1
        return True

    async def _tear_down(self, workload: Object) -> None:
        pods = self.cache.owned(PODS, workload["metadata"]["uid"])
        if "deletionTimestamp" not in workload["metadata"]:
            await self.delete(STATEFULSETS, workload)
        for pod in pods:
            metadata = pod["metadata"]
            try:
                await self.client.delete(PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_s=0)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    async def _make(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        if self.cache.get(resource, metadata["namespace"], metadata["name"]) is None and self.cache.served(resource):
            await self.create(resource, obj)


def _controller_uid(obj: Object) -> str:
    references = obj["metadata"].get("ownerReferences") or []
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")
