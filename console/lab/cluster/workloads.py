"""Nodes and inference workloads as a user of the lab would apply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from console.lab.cluster.resources import ASCENDJOBS, INFERSERVICESETS, STORMSERVICES, Resource

Object = dict[str, Any]

NPU = "huawei.com/Ascend910"
FORCE = {"fault-scheduling": "force", "fault-retry-times": "10"}
DEPLOY_SERVER = {"prefill": "2", "decode": "1"}


def lab_node(name: str, *, chips: int = 8, number: int = 0, labels: Mapping[str, str] | None = None) -> Object:
    """A Ready node with ``chips`` NPUs; ``number`` (0..) makes its address."""
    amounts = {"cpu": "192", "memory": "1024Gi", "pods": "110", NPU: str(chips)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "arm64",
                "accelerator": "huawei-Ascend910",
                **(labels or {}),
            },
        },
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{number // 200}.{number % 200 + 11}"},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def mindie_job(
    name: str,
    role: Literal["prefill", "decode"] = "prefill",
    *,
    namespace: str = "default",
    job_id: str = "mindie-demo",
    pods: int = 2,
    npus: int = 8,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> Object:
    """One prefill or decode instance of MindIE Server: an AscendJob with a master and ``pods - 1`` workers.

    ``labels`` come on top of force and 10 retries; a value of "" takes a label off.
    """
    own = {"app": "mindie-ms-server", "grt-group/deploy-server": DEPLOY_SERVER[role], **FORCE}
    return _ascend_job(name, namespace, job_id, own, labels, pods, npus, "Never", node_selector)


def mindie_manager(
    name: str,
    app: Literal["mindie-ms-controller", "mindie-ms-coordinator"] = "mindie-ms-coordinator",
    *,
    namespace: str = "default",
    job_id: str = "mindie-demo",
    pod_rescheduling: bool = True,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> Object:
    """MS Controller or Coordinator as an active and a standby pod without NPUs."""
    own = {"app": app, **FORCE}
    if pod_rescheduling:
        own["pod-rescheduling"] = "on"
    return _ascend_job(name, namespace, job_id, own, labels, 2, 0, "Always", node_selector)


def rings_config(job: Object) -> Object:
    """The ConfigMap a user creates with a job, for the operator to write the rank table into."""
    metadata = job["metadata"]
    labels = {key: metadata["labels"][key] for key in ("jobID", "grt-group/deploy-server") if key in metadata["labels"]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"rings-config-{metadata['name']}",
            "namespace": metadata["namespace"],
            "labels": {**labels, "mx-consumer-cim": "true"},
        },
        "data": {"hccl.json": '{"status":"initializing"}'},
    }


def storm_service(
    name: str,
    roles: Mapping[str, tuple[int, int]] | None = None,
    *,
    namespace: str = "default",
    replicas: int = 1,
    npus: int = 8,
    stateful: bool = True,
    pod_rescheduling: bool = False,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> Object:
    """An AIBrix StormService; ``roles`` is name -> (replicas, podGroupSize), by default 1P1D of two pods each."""
    own = {**FORCE, "pod-rescheduling": "on" if pod_rescheduling else "", **(labels or {})}
    template = _template("engine", npus, _without_empty(own), "Never", node_selector)
    entries = [
        {"name": role, "replicas": count, "podGroupSize": size, "stateful": stateful, "template": template}
        for role, (count, size) in (roles or {"prefill": (1, 2), "decode": (1, 2)}).items()
    ]
    spec = {
        "replicas": replicas,
        "stateful": stateful,
        "updateStrategy": {"type": "InPlaceUpdate"},
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"roles": entries}},
    }
    return _object(STORMSERVICES, name, namespace, {"app": name}, spec)


def infer_service(
    name: str,
    roles: Mapping[str, tuple[int, int]] | None = None,
    *,
    namespace: str = "default",
    npus: int = 8,
    gang: bool = True,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> Object:
    """An InferServiceSet of one service; ``roles``: name -> (instances, pods of each), by default 1P1D of two pods."""
    template = _template("engine", npus, _without_empty({**FORCE, **(labels or {})}), None, node_selector)
    entries = [
        {
            "name": role,
            "replicas": instances,
            "workload": {"apiVersion": "apps/v1", "kind": "StatefulSet"},
            "metadata": {"labels": {"infer.huawei.com/gang-schedule": "true" if gang else "false"}},
            "spec": {"replicas": pods, "template": template},
        }
        for role, (instances, pods) in (roles or {"prefill": (1, 2), "decode": (1, 2)}).items()
    ]
    return _object(INFERSERVICESETS, name, namespace, {}, {"replicas": 1, "template": {"roles": entries}})


def _ascend_job(
    name: str,
    namespace: str,
    job_id: str,
    own: Mapping[str, str],
    labels: Mapping[str, str] | None,
    pods: int,
    npus: int,
    restart_policy: str,
    node_selector: Mapping[str, str] | None,
) -> Object:
    every = _without_empty({"framework": "pytorch", "jobID": job_id, **own, **(labels or {})})
    on_pods = {"app": own["app"], "jobID": job_id}
    template = _template("ascend", npus, on_pods, None, node_selector)
    kinds = {"Master": 1, "Worker": pods - 1}
    spec = {
        "runPolicy": {"schedulingPolicy": {"minAvailable": pods, "queue": "default"}},
        "successPolicy": "AllWorkers",
        "replicaSpecs": {
            kind: {"replicas": count, "restartPolicy": restart_policy, "template": template}
            for kind, count in kinds.items()
            if count
        },
    }
    return _object(ASCENDJOBS, name, namespace, every, spec)


def _template(
    container: str,
    npus: int,
    labels: Mapping[str, str],
    restart_policy: str | None,
    node_selector: Mapping[str, str] | None,
) -> Object:
    amounts = {NPU: str(npus)} if npus else {}
    spec: Object = {
        "nodeSelector": dict(node_selector or {}),
        "containers": [
            {
                "name": container,
                "image": "registry.local/inference:lab",
                "ports": [{"name": "ascendjob-port", "containerPort": 2222}] if container == "ascend" else [],
                "resources": {"limits": amounts, "requests": amounts},
            }
        ],
    }
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


def _object(resource: Resource, name: str, namespace: str, labels: Mapping[str, str], spec: Object) -> Object:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)}, "spec": spec}


def _without_empty(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value}
