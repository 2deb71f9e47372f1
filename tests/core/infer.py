"""An infer-operator service on a virtual cluster: two prefill instances of two pods, and what the operator does."""

from __future__ import annotations

from typing import Any

from console.scenario.virtual import VirtualCluster
from tests.core.build import Object, node, owner_ref, pod

FAULTY, MATE, SPARES = "a", "b", ("node-x", "node-y")
NODES = (FAULTY, MATE, "c", "d", *SPARES)
INSTANCE, OTHER = "my-0-prefill-0", "my-0-prefill-1"
POD, SIBLING = f"ml/{INSTANCE}-0", f"ml/{INSTANCE}-1"
MARK = "huawei.com/pod-status"
GROUP = "mindcluster.huawei.com/v1"


def _owner(api_version: str, kind: str, name: str, above: Object | None, namespace: str = "ml") -> Object:
    meta: Object = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {}}
    meta["ownerReferences"] = [owner_ref(above)] if above else []
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {}, "status": {}}


def operator(*, available: int = 1) -> Object:
    found = _owner("apps/v1", "Deployment", "infer-operator", None, namespace="mindx-dl")
    return found | {"spec": {"replicas": 1}, "status": {"availableReplicas": available}}


def service(labels: dict[str, str], *, kind: str = "StatefulSet") -> list[Object]:
    top = _owner(GROUP, "InferServiceSet", "my", None)
    one = _owner(GROUP, "InferService", "my-0", top)
    roles = _owner(GROUP, "InstanceSet", "my-0-prefill", one)
    found = [top, one, roles]
    for number, nodes in enumerate(((FAULTY, MATE), ("c", "d"))):
        found += instance(number, nodes, labels, roles, kind=kind)
    return found


def instance(
    number: int, nodes: tuple[str, str], labels: dict[str, str], roles: Object, *, kind: str, generation: int = 0
) -> list[Object]:
    """One instance: its workload (and the ReplicaSet of a Deployment) and two pods."""
    name = f"my-0-prefill-{number}"
    workload = _owner("apps/v1", kind, name, roles)
    workload["metadata"]["uid"] += f"-{generation}"
    workload["spec"] = {"replicas": 2}
    found, controller = [workload], workload
    if kind == "Deployment":
        controller = _owner("apps/v1", "ReplicaSet", f"{name}-7f{generation}", workload)
        found.append(controller)
    marks = {
        "infer.huawei.com/inferservice-name": "my-0",
        "infer.huawei.com/instanceset-name": "prefill",
        "infer.huawei.com/instanceset-index": str(number),
    }
    for ordinal, on in enumerate(nodes):
        made = pod(f"{name}-{ordinal}", on, controller, labels={**labels, **marks})
        made["metadata"]["uid"] += f"-{generation}"
        found.append(made)
    return found


def cluster(labels: dict[str, str], *, available: int | None = 1, kind: str = "StatefulSet") -> VirtualCluster:
    """available: replicas of the operator, None = it is not installed."""
    objects = [*(node(name) for name in NODES), *service(labels, kind=kind)]
    if available is not None:
        objects.append(operator(available=available))
    return VirtualCluster(objects)


def marks(seen: VirtualCluster) -> dict[str, str]:
    found = {p["metadata"]["name"]: (p["metadata"].get("annotations") or {}) for p in seen.store.objects("pods")}
    return {name: annotations[MARK] for name, annotations in found.items() if MARK in annotations}


def rebuild(
    seen: VirtualCluster, labels: dict[str, str], *, kind: str = "StatefulSet", on: tuple[str, str] = SPARES
) -> None:
    """What the operator does with a marked instance: deletes its workload, its pods follow, and makes it anew."""
    seen.delete(f"{kind}/ml/{INSTANCE}")
    for name in (POD, SIBLING):
        seen.delete(f"Pod/{name}")
    make(seen, labels, kind=kind, on=on)


def make(
    seen: VirtualCluster,
    labels: dict[str, str],
    *,
    kind: str = "StatefulSet",
    on: tuple[str, str] = SPARES,
    generation: int = 1,
) -> None:
    """The instance anew, Ready at once."""
    roles: Any = seen.store.get("instancesets", "ml", "my-0-prefill")
    for obj in instance(0, on, labels, roles, kind=kind, generation=generation):
        seen.create(obj)
