"""The Kubernetes objects the cluster tests create, small and as the API takes them."""

from collections.abc import Mapping
from typing import Any

KWOK_LABEL = "kwok.x-k8s.io/node"
NPU_RESOURCE = "huawei.com/Ascend910"


def node(name: str, *, npus: int = 8, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A node that kwok makes Ready. kwok keeps the capacity it finds here."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", NPU_RESOURCE: str(npus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, KWOK_LABEL: "fake", **(labels or {})},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(
    name: str,
    *,
    npus: int = 0,
    node_selector: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    amounts = {NPU_RESOURCE: str(npus)} if npus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {
            "nodeSelector": dict(node_selector or {}),
            "containers": [{"name": "server", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


def condition(obj: dict[str, Any], kind: str) -> str | None:
    """The status of one condition of a node or pod: "True", "False", "Unknown", or None where it has none."""
    for item in obj.get("status", {}).get("conditions", []):
        if item["type"] == kind:
            status: str = item["status"]
            return status
    return None
