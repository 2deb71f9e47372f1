"""The objects AIBrix makes for a StormService: RoleSets, PodSets, pods, PodGroups. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from console.lab.cluster.placement import GROUP_ANNOTATION
from console.lab.cluster.resources import PODSETS, ROLESETS, STORMSERVICES, Resource

Object = dict[str, Any]

PREFIX = "stormservice.orchestration.aibrix.ai"
HASH_LABEL = "role-template-hash"
ROLE_LABEL = "role-name"
MAX_HOSTNAME = 63
FINALIZERS = {
    STORMSERVICES: "orchestration.aibrix.ai/stormservice-finalizer",
    ROLESETS: "orchestration.aibrix.ai/roleset-finalizer",
    PODSETS: "orchestration.aibrix.ai/podset-finalizer",
}


def role_sets(service: Object, present: list[Object]) -> Iterator[Object]:
    """The RoleSets that are missing; the API server completes their names."""
    metadata, template = service["metadata"], service["spec"]["template"]
    taken = {int(r["metadata"]["annotations"][f"{PREFIX}/roleset-index"]) for r in present}
    revision = f"{metadata['name']}-{_hash(template['spec'])}"
    for index in range(int(service["spec"].get("replicas", 1))):
        if index in taken:
            continue
        labels = (template.get("metadata") or {}).get("labels") or {}
        yield {
            "metadata": {
                "generateName": f"{metadata['name']}-roleset-",
                "namespace": metadata["namespace"],
                "labels": {
                    **labels,
                    "storm-service-name": metadata["name"],
                    "storm-service-revision": revision,
                },
                "annotations": {f"{PREFIX}/revision": revision, f"{PREFIX}/roleset-index": str(index)},
                "finalizers": [FINALIZERS[ROLESETS]],
                "ownerReferences": [owner(STORMSERVICES, service)],
            },
            "spec": {"updateStrategy": "Sequential", **template["spec"]},
        }


def size(role: Object) -> int:
    """Pods per replica of a role."""
    return int(role.get("podGroupSize") or 1)


def pod_set(role_set: Object, role: Object, index: int) -> Object:
    """The PodSet that is one replica of a role with podGroupSize > 1."""
    metadata, digest = role_set["metadata"], template_hash(role)
    spec = {"podGroupSize": size(role), "stateful": bool(role.get("stateful")), "recoveryPolicy": "ReplaceUnhealthy"}
    if strategy := role.get("schedulingStrategy"):
        spec["schedulingStrategy"] = strategy
    return {
        "metadata": {
            "name": f"{metadata['name']}-{role['name']}-{digest}-{index}",
            "namespace": metadata["namespace"],
            "labels": {**_role_labels(role_set, role), f"{PREFIX}/role-replica-index": str(index)},
            "annotations": _annotations(role_set, index),
            "finalizers": [FINALIZERS[PODSETS]],
            "ownerReferences": [owner(ROLESETS, role_set)],
        },
        "spec": {**spec, "template": role["template"]},
    }


def pod_of_pod_set(pod_set: Object, role_set: Object | None, index: int) -> Object:
    """One pod of a PodSet; labels patched onto the PodSet reach it."""
    metadata, spec = pod_set["metadata"], pod_set["spec"]
    labels = {
        **metadata["labels"],
        f"{PREFIX}/podset-name": metadata["name"],
        f"{PREFIX}/pod-group-index": str(index),
    }
    env = {
        "PODSET_NAME": metadata["name"],
        "POD_GROUP_INDEX": str(index),
        "POD_GROUP_SIZE": str(spec["podGroupSize"]),
        **_role_env(metadata["labels"], metadata["annotations"]),
    }
    group = metadata["name"] if spec.get("schedulingStrategy") else _role_set_group(role_set)
    pod = _pod(spec["template"], metadata["namespace"], labels, metadata["annotations"], env, group)
    pod["metadata"] |= {"name": f"{metadata['name']}-{index}", "ownerReferences": [owner(PODSETS, pod_set)]}
    return pod


def pod_of_role_set(role_set: Object, role: Object, index: int) -> Object:
    """The pod that is one replica of a role of size 1: with a fixed name when stateful, else the server names it."""
    metadata, digest = role_set["metadata"], template_hash(role)
    service = metadata["labels"]["storm-service-name"]
    labels = {
        **_role_labels(role_set, role),
        f"{PREFIX}/role-revision": "1",
        f"{PREFIX}/role-revision-name": f"{service}-{role['name']}-1",
    }
    annotations, prefix = _annotations(role_set, index), f"{metadata['name']}-{role['name']}-{digest}-"
    name = {"generateName": prefix}
    if role.get("stateful"):
        labels[f"{PREFIX}/role-replica-index"] = str(index)
        name = {"name": f"{prefix}{index}"}
    env = _role_env(labels, annotations)
    pod = _pod(role["template"], metadata["namespace"], labels, annotations, env, _role_set_group(role_set))
    pod["metadata"] |= {**name, "ownerReferences": [owner(ROLESETS, role_set)]}
    return pod


def pod_group(resource: Resource, obj: Object, members: int) -> Object | None:
    """The PodGroup of a RoleSet or PodSet with a Volcano scheduling strategy; None without one."""
    strategy = (obj["spec"].get("schedulingStrategy") or {}).get("volcanoSchedulingStrategy")
    if strategy is None:
        return None
    metadata = obj["metadata"]
    head = {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner(resource, obj)]}
    return {"metadata": head, "spec": {"minMember": members, **strategy}}


def template_hash(role: Object) -> str:
    """Changes with every edit of the pod template, labels included."""
    return _hash(role["template"])


def owner(resource: Resource, obj: Object) -> Object:
    """The controller reference to an object."""
    metadata = obj["metadata"]
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "name": metadata["name"], "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def _pod(
    template: Object, namespace: str, labels: Object, annotations: Object, env: dict[str, str], group: str
) -> Object:
    head: Object = template.get("metadata") or {}
    labels, annotations = {**(head.get("labels") or {}), **labels}, {**(head.get("annotations") or {}), **annotations}
    if group:
        labels[GROUP_ANNOTATION] = annotations[GROUP_ANNOTATION] = group
    variables = [{"name": name, "value": value} for name, value in env.items()]
    containers = [{**c, "env": [*c.get("env", []), *variables]} for c in template["spec"]["containers"]]
    return {
        "metadata": {"namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {**template["spec"], "containers": containers},
    }


def _role_labels(role_set: Object, role: Object) -> Object:
    metadata = role_set["metadata"]
    return {
        "roleset-name": metadata["name"],
        ROLE_LABEL: role["name"],
        HASH_LABEL: template_hash(role),
        "storm-service-name": metadata["labels"]["storm-service-name"],
    }


def _annotations(role_set: Object, index: int) -> Object:
    number = role_set["metadata"]["annotations"][f"{PREFIX}/roleset-index"]
    return {f"{PREFIX}/roleset-index": number, f"{PREFIX}/role-replica-index": str(index)}


def _role_env(labels: Object, annotations: Object) -> dict[str, str]:
    return {
        "STORM_SERVICE_NAME": labels["storm-service-name"],
        "ROLESET_NAME": labels["roleset-name"],
        "ROLESET_INDEX": annotations[f"{PREFIX}/roleset-index"],
        "ROLE_NAME": labels[ROLE_LABEL],
        "ROLE_TEMPLATE_HASH": labels[HASH_LABEL],
        "ROLE_REPLICA_INDEX": annotations[f"{PREFIX}/role-replica-index"],
    }


def _role_set_group(role_set: Object | None) -> str:
    if role_set is None or not role_set["spec"].get("schedulingStrategy"):
        return ""
    name: str = role_set["metadata"]["name"]
    return name


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:6]
