"""Small cluster objects for tests of the core, as the API would serve them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

CHIPS = 8


def node(name: str, *, ready: str = "True", labels: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "allocatable": {"huawei.com/Ascend910": str(CHIPS)},
            "capacity": {"huawei.com/Ascend910": str(CHIPS)},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(
    name: str,
    on: str | None,
    owner: Object | None,
    *,
    uid: str | None = None,
    labels: dict[str, str] | None = None,
    chips: tuple[int, ...] | None = tuple(range(CHIPS)),
    phase: str = "Running",
    ready: bool = True,
    group: str | None = None,
) -> Object:
    """A pod of namespace `ml` with `len(chips)` NPUs; chips None = it asks for NPUs and nobody knows which."""
    annotations: dict[str, str] = {}
    if chips:
        annotations["huawei.com/AscendReal"] = ",".join(f"Ascend910-{chip}" for chip in chips)
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    npus = CHIPS if chips is None else len(chips)
    resources = {"requests": {"huawei.com/Ascend910": str(npus)}} if npus else {}
    status: Object = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    if phase == "Failed":
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid or f"uid-{name}",
            "labels": dict(labels or {}),
            "annotations": annotations,
            "ownerReferences": [owner_ref(owner)] if owner else [],
        },
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": resources}], "restartPolicy": "Never"},
        "status": status,
    }


def owner_ref(owner: Object) -> Object:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _owner(
    api_version: str, kind: str, name: str, labels: dict[str, str], spec: Object, above: Object | None
) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "labels": labels,
            "ownerReferences": [owner_ref(above)] if above else [],
        },
        "spec": spec,
        "status": {},
    }


FORCE = {"fault-scheduling": "force", "fault-retry-times": "3"}


def ascend_job(name: str, *, labels: dict[str, str] | None = None, replicas: int = 2) -> Object:
    spec = {"replicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": replicas - 1}}}
    wanted = FORCE | {"fault-retry-times": "100"} if labels is None else labels
    return _owner("mindxdl.gitee.com/v1", "AscendJob", name, wanted, spec, None)


def job_with_pods(name: str, nodes: tuple[str, ...], *, labels: dict[str, str] | None = None) -> list[Object]:
    """An AscendJob and one pod of all eight chips on each of the nodes."""
    job = ascend_job(name, labels=labels, replicas=len(nodes))
    names = [f"{name}-master-0", *(f"{name}-worker-{i}" for i in range(len(nodes) - 1))]
    return [job, *(pod(p, on, job, labels={"version": "0"}) for p, on in zip(names, nodes, strict=True))]


def storm_service(name: str) -> Object:
    return _owner("orchestration.aibrix.ai/v1alpha1", "StormService", name, {}, {}, None)


def role_set(name: str, service: Object) -> Object:
    return _owner("orchestration.aibrix.ai/v1alpha1", "RoleSet", name, {}, {}, service)


def pod_set(name: str, roles: Object, *, size: int = 2) -> Object:
    return _owner("orchestration.aibrix.ai/v1alpha1", "PodSet", name, {}, {"podGroupSize": size}, roles)
