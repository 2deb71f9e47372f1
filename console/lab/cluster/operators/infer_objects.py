"""The objects the infer-operator makes: InferServices, InstanceSets, and one workload per instance. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from console.lab.cluster.operators.storm_objects import owner as reference
from console.lab.cluster.resources import (
    INFERSERVICES,
    INFERSERVICESETS,
    INSTANCESETS,
    PODGROUPS,
    STATEFULSETS,
    Resource,
)

Object = dict[str, Any]

PREFIX = "infer.huawei.com"
GANG = f"{PREFIX}/gang-schedule"
NAMESPACE, NAME = "mindx-dl", "infer-operator"
COPIED = ("fault-scheduling",)
"""Labels of the pod template that the workload carries too."""


def deployment(*, available: int = 1) -> Object:
    """The operator's own Deployment with a status, for clusters in which no controller writes that."""
    labels = {"app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "manager", "image": "registry.local/infer-operator:lab"}]},
            },
        },
        "status": {"replicas": 1, "availableReplicas": available},
    }


def services(top: Object) -> Iterator[Object]:
    """The InferServices of an InferServiceSet."""
    for index in range(int(top["spec"].get("replicas", 1))):
        name = f"{top['metadata']['name']}-{index}"
        labels = {
            f"{PREFIX}/inferserviceset-name": top["metadata"]["name"],
            f"{PREFIX}/inferservice-index": str(index),
        }
        yield _object(INFERSERVICES, name, labels, INFERSERVICESETS, top, top["spec"]["template"])


def instance_sets(service: Object) -> Iterator[Object]:
    """One InstanceSet per role of an InferService."""
    for role in service["spec"]["roles"]:
        name = f"{service['metadata']['name']}-{role['name']}"
        labels = {
            **(role.get("metadata") or {}).get("labels", {}),
            f"{PREFIX}/inferservice-name": service["metadata"]["name"],
            f"{PREFIX}/instanceset-name": role["name"],
        }
        yield _object(INSTANCESETS, name, labels, INFERSERVICES, service, role)


def workload(role_set: Object, index: int) -> Object:
    """The StatefulSet that is one instance of an InstanceSet."""
    name, labels = instance_name(role_set, index), _labels(role_set, index)
    template = role_set["spec"]["spec"]["template"]
    meta = template.get("metadata") or {}
    annotations = dict(meta.get("annotations") or {})
    if _gang(role_set):
        annotations["scheduling.k8s.io/group-name"] = f"pg-{name}"
    pod = {"metadata": {"labels": {**meta.get("labels", {}), **labels}, "annotations": annotations}}
    spec = {
        "replicas": int(role_set["spec"]["spec"].get("replicas", 1)),
        "serviceName": f"service-{name}",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {**pod, "spec": template["spec"]},
    }
    copied = {key: meta["labels"][key] for key in COPIED if key in meta.get("labels", {})}
    own = {**role_set["metadata"]["labels"], **labels, **copied}
    return _object(STATEFULSETS, name, own, INSTANCESETS, role_set, spec)


def pod_group(role_set: Object, index: int) -> Object | None:
    """The instance's PodGroup; None without gang scheduling."""
    if not _gang(role_set):
        return None
    name, members = f"pg-{instance_name(role_set, index)}", int(role_set["spec"]["spec"].get("replicas", 1))
    return _object(PODGROUPS, name, _labels(role_set, index), INSTANCESETS, role_set, {"minMember": members})


def instance_name(role_set: Object, index: int) -> str:
    return f"{role_set['metadata']['name']}-{index}"


def workload_of(pod: Object) -> str | None:
    """Name of the workload of one of the operator's pods, by its labels; None for any other pod."""
    labels = pod["metadata"].get("labels") or {}
    keys = [f"{PREFIX}/{key}" for key in ("inferservice-name", "instanceset-name", "instanceset-index")]
    return "-".join(labels[key] for key in keys) if all(key in labels for key in keys) else None


def _gang(role_set: Object) -> bool:
    return bool(role_set["metadata"]["labels"].get(GANG) == "true")


def _labels(role_set: Object, index: int) -> dict[str, str]:
    own = role_set["metadata"]["labels"]
    return {
        f"{PREFIX}/inferservice-name": own[f"{PREFIX}/inferservice-name"],
        f"{PREFIX}/instanceset-name": own[f"{PREFIX}/instanceset-name"],
        f"{PREFIX}/instanceset-index": str(index),
        f"{PREFIX}/ascend-infer-operator": "true",
    }


def _object(
    kind: Resource, name: str, labels: dict[str, str], owner_kind: Resource, owner: Object, spec: Object
) -> Object:
    metadata = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [reference(owner_kind, owner)],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
