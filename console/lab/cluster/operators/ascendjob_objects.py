"""The objects ascend-operator makes for an AscendJob, and what it reads from one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from console.lab.cluster.placement import GROUP_ANNOTATION, npus
from console.lab.cluster.resources import ASCENDJOBS

Object = dict[str, Any]

RANK_ANNOTATION = "hccl/rankIndex"
RETRIES_LABEL = "fault-retry-times"
_MASTERS = ("Master", "Chief", "Scheduler")


def replicas(job: Object) -> Iterator[tuple[str, int]]:
    """Every slot of the job as (replica type, index), the master first."""
    specs: Object = job["spec"].get("replicaSpecs") or {}
    for kind in sorted(specs, key=lambda kind: kind not in _MASTERS):
        for index in range(int(specs[kind].get("replicas", 1))):
            yield kind, index


def slot(pod: Object) -> tuple[str, int]:
    """Which slot a pod fills: (lower-case replica type, index)."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get("replica-type", ""), int(labels.get("replica-index", -1))


def group_name(job: Object) -> str:
    """The job's PodGroup."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def retries(job: Object) -> int | None:
    """``fault-retry-times``: 0 without the label, None when it is no number (the operator then does nothing at all)."""
    text = (job["metadata"].get("labels") or {}).get(RETRIES_LABEL, "0")
    try:
        return int(text)
    except ValueError:
        return None


def backoff_limit(job: Object) -> int:
    """How many rounds of deleted pods the job survives; 0 or less = any number."""
    limit = (job["spec"].get("runPolicy") or {}).get("backoffLimit")
    return int(limit) if limit is not None else retries(job) or -1


def pod(job: Object, kind: str, index: int, version: int) -> Object:
    """One pod; ``version`` is the round it belongs to."""
    metadata, spec = job["metadata"], job["spec"]["replicaSpecs"][kind]
    template: Object = spec["template"]
    lower, name = kind.lower(), metadata["name"]
    labels = {
        **((template.get("metadata") or {}).get("labels") or {}),
        "version": str(version),
        "group-name": ASCENDJOBS.group,
        "job-name": name,
        "replica-type": lower,
        "replica-index": str(index),
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/operator-name": "ascendjob-controller",
        "training.kubeflow.org/replica-type": lower,
        "training.kubeflow.org/replica-index": str(index),
    }
    if kind in _MASTERS:
        labels["training.kubeflow.org/job-role"] = "master"
    annotations = {
        **((template.get("metadata") or {}).get("annotations") or {}),
        RANK_ANNOTATION: str(_rank(job, kind, index)),
        GROUP_ANNOTATION: group_name(job),
        "volcano.sh/task-spec": lower,
    }
    policy = spec.get("restartPolicy", "Never")
    return {
        "metadata": {
            "name": f"{name}-{lower}-{index}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(job)],
        },
        "spec": {
            **template["spec"],
            # The kubelet knows no ExitCode: the operator restarts such pods itself.
            "restartPolicy": "Never" if policy == "ExitCode" else policy,
            "containers": [_container(job, container) for container in template["spec"]["containers"]],
        },
    }


def pod_group(job: Object) -> Object:
    """The PodGroup as it is when the job is new; later changes of the job's labels do not reach it."""
    metadata = job["metadata"]
    policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
    slots = list(replicas(job))
    total: Counter[str] = Counter()
    for kind, _ in slots:
        total += npus({"spec": job["spec"]["replicaSpecs"][kind]["template"]["spec"]})
    return {
        "metadata": {
            "name": group_name(job),
            "namespace": metadata["namespace"],
            "labels": metadata.get("labels") or {},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [owner(job)],
        },
        "spec": {
            "minMember": int(policy.get("minAvailable", len(slots))),
            "minTaskMember": dict(Counter(kind.lower() for kind, _ in slots)),
            "queue": policy.get("queue", "default"),
            "minResources": {name: str(amount) for name, amount in total.items()},
        },
    }


def owner(job: Object) -> Object:
    """The controller reference to the job."""
    metadata = job["metadata"]
    head = {"apiVersion": ASCENDJOBS.api_version, "kind": ASCENDJOBS.kind}
    return {**head, "name": metadata["name"], "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def _rank(job: Object, kind: str, index: int) -> int:
    """A master that mounts chips is rank 0 and shifts the workers by one."""
    if kind in _MASTERS:
        return 0
    masters = [kind for kind in job["spec"]["replicaSpecs"] if kind in _MASTERS]
    counted = any(npus({"spec": job["spec"]["replicaSpecs"][kind]["template"]["spec"]}) for kind in masters)
    return index + 1 if counted else index


def _container(job: Object, container: Object) -> Object:
    """The container with the variables a MindIE job (labels ``app`` and ``jobID``) gets."""
    labels = job["metadata"].get("labels") or {}
    if "app" not in labels or "jobID" not in labels:
        return container
    env = [{"name": "MINDX_TASK_ID", "value": labels["jobID"]}, {"name": "APP_TYPE", "value": labels["app"]}]
    return {**container, "env": [*container.get("env", []), *env]}
