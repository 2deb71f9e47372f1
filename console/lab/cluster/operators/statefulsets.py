"""Stand-in for the StatefulSet controller, for the lab alone: a real control plane has its own.

Parallel management, no volumes and no rolling update: missing ordinals are made, Failed pods deleted, and a pod that
terminates keeps its name until it is gone. Source: Kubernetes apps/v1 StatefulSet controller.
"""

from __future__ import annotations

from typing import Any

from console.lab.cluster.operators.operator import Operator
from console.lab.cluster.operators.storm_objects import owner
from console.lab.cluster.placement import finished
from console.lab.cluster.resources import PODS, STATEFULSETS, Resource

Object = dict[str, Any]


class StatefulSets(Operator):
    managed = (STATEFULSETS,)
    watched = (PODS,)

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        """Make the pods that are missing, delete those that are too many or have ended."""
        if "deletionTimestamp" in obj["metadata"]:
            return
        wanted = {f"{obj['metadata']['name']}-{i}": i for i in range(int(obj["spec"].get("replicas", 1)))}
        pods = {pod["metadata"]["name"]: pod for pod in self.cache.owned(PODS, obj["metadata"]["uid"])}
        for name, ordinal in wanted.items():
            if name not in pods and self.cache.get(PODS, obj["metadata"]["namespace"], name) is None:
                await self.create(PODS, _pod(obj, name, ordinal))
        for name, pod in pods.items():
            if (name not in wanted or finished(pod)) and "deletionTimestamp" not in pod["metadata"]:
                await self.delete(PODS, pod)


def _pod(workload: Object, name: str, ordinal: int) -> Object:
    template = workload["spec"]["template"]
    meta = template.get("metadata") or {}
    own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "labels": {**meta.get("labels", {}), **own},
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner(STATEFULSETS, workload)],
        },
        "spec": dict(template["spec"]),
    }
