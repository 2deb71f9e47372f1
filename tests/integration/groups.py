"""Stand-ins for two more controllers: Volcano's job controller, and LeaderWorkerSet's on top of real StatefulSets.

Sources: volcano job controller (names, labels, PodGroup, a missing pod is made again); LeaderWorkerSet controller and
webhook (a leader StatefulSet; for each leader pod one of workers that it owns, so that both end together).
"""

from typing import Any

from console.lab.cluster.operators.operator import Operator
from console.lab.cluster.operators.storm_objects import owner
from console.lab.cluster.placement import GROUP_ANNOTATION
from console.lab.cluster.resources import (
    LEADERWORKERSETS,
    PODGROUPS,
    PODS,
    STATEFULSETS,
    VOLCANO_JOBS,
    Resource,
)

Object = dict[str, Any]

LWS = "leaderworkerset.sigs.k8s.io"
NAME, GROUP, WORKER = f"{LWS}/name", f"{LWS}/group-index", f"{LWS}/worker-index"


class VolcanoJobs(Operator):
    managed = (VOLCANO_JOBS,)
    watched = (PODGROUPS, PODS)

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        metadata, spec = obj["metadata"], obj["spec"]
        if "deletionTimestamp" in metadata:
            return
        group = self.cache.get(PODGROUPS, metadata["namespace"], _group_name(obj))
        if group is None:
            head = {"name": _group_name(obj), "namespace": metadata["namespace"]}
            head |= {"ownerReferences": [owner(VOLCANO_JOBS, obj)]}
            await self.create(PODGROUPS, {"metadata": head, "spec": {"minMember": spec["minAvailable"]}})
            return
        if (group.get("status") or {}).get("phase", "") in ("", "Pending"):
            return
        there = {pod["metadata"]["name"] for pod in self.cache.owned(PODS, metadata["uid"])}
        for task in spec["tasks"]:
            for index in range(task["replicas"]):
                if f"{metadata['name']}-{task['name']}-{index}" not in there:
                    await self.create(PODS, _task_pod(obj, task, index))


class LeaderWorkerSets(Operator):
    managed = (LEADERWORKERSETS, STATEFULSETS)
    watched = (PODS,)

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata:
            return
        if resource is LEADERWORKERSETS:
            if self.cache.get(STATEFULSETS, metadata["namespace"], metadata["name"]) is None:
                await self.create(STATEFULSETS, _leaders(obj))
            return
        lws = self.cache.get(LEADERWORKERSETS, metadata["namespace"], (metadata.get("labels") or {}).get(NAME, ""))
        if lws is None or metadata["name"] != lws["metadata"]["name"]:
            return
        for leader in self.cache.owned(PODS, metadata["uid"]):
            if "deletionTimestamp" in leader["metadata"]:
                continue
            index = leader["metadata"]["name"].rpartition("-")[2]
            if GROUP not in leader["metadata"]["labels"]:  # the webhook's work
                await self.merge(PODS, leader, {"metadata": {"labels": {GROUP: index, WORKER: "0"}}})
            if self.cache.get(STATEFULSETS, metadata["namespace"], leader["metadata"]["name"]) is None:
                await self.create(STATEFULSETS, _workers(lws, leader, index))


def _group_name(job: Object) -> str:
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def _task_pod(job: Object, task: Object, index: int) -> Object:
    name, template = job["metadata"]["name"], task["template"]
    labels = {**(template["metadata"].get("labels") or {}), "volcano.sh/job-name": name}
    annotations = {GROUP_ANNOTATION: _group_name(job), "volcano.sh/task-spec": task["name"]}
    head = {"name": f"{name}-{task['name']}-{index}", "namespace": job["metadata"]["namespace"]}
    head |= {"labels": labels, "annotations": annotations, "ownerReferences": [owner(VOLCANO_JOBS, job)]}
    return {"metadata": head, "spec": {**template["spec"], "restartPolicy": "Never"}}


def _leaders(lws: Object) -> Object:
    name, spec = lws["metadata"]["name"], lws["spec"]
    return _stateful_set(lws, name, spec["replicas"], {NAME: name}, owner(LEADERWORKERSETS, lws), first=0)


def _workers(lws: Object, leader: Object, index: str) -> Object:
    labels = {NAME: lws["metadata"]["name"], GROUP: index}
    count = lws["spec"]["leaderWorkerTemplate"]["size"] - 1
    return _stateful_set(lws, leader["metadata"]["name"], count, labels, owner(PODS, leader), first=1)


def _stateful_set(lws: Object, name: str, replicas: int, labels: Object, above: Object, *, first: int) -> Object:
    template = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    pod = {**template, "metadata": {"labels": {**(template["metadata"].get("labels") or {}), **labels}}}
    spec = {"serviceName": name, "podManagementPolicy": "Parallel", "ordinals": {"start": first}, "template": pod}
    head = {"name": name, "namespace": lws["metadata"]["namespace"], "labels": labels, "ownerReferences": [above]}
    return {"metadata": head, "spec": {**spec, "replicas": replicas, "selector": {"matchLabels": labels}}}
