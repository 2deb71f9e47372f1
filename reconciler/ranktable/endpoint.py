"""Where the MS Controllers find the server: the leader's address behind the Service that carries ClusterD's name.

ascend-operator tells the pods that name, and a Service selects pods of its own namespace only. So it has no selector,
and its one EndpointSlice is written by whoever leads. Pure: the calls are driven by serving.py.
Source: Kubernetes discovery.k8s.io/v1; MindCluster (Service `clusterd-grpc-svc` in `mindx-dl`, port 8899).
"""

from __future__ import annotations

from typing import Any

from reconciler.core.calls import Call, Outcome, Step, failed
from reconciler.core.fold import PART_OF
from reconciler.core.resources import CLUSTERD

NAMESPACE, SERVICE = str(CLUSTERD.namespace), str(CLUSTERD.name)
NAME = "npuwarden-ranktable"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
REMEDY = "remedy: kubectl apply -k deploy/components/ranktable"


def point_here(address: str, port: int) -> Step:
    """The Service's one endpoint is this address. Nothing is written where the Service is ClusterD's own."""
    service = yield Call("GET", CLUSTERD.path(NAMESPACE, SERVICE))
    if not service.ok:
        return failed(service, f"no Service {NAMESPACE}/{SERVICE} leads MS Controllers here; {REMEDY}")
    if (service.body["metadata"].get("labels") or {}).get(PART_OF) != "npu-warden":
        return Outcome(False, "foreign", f"Service {NAMESPACE}/{SERVICE} is ClusterD's: it leads nobody here")
    name = f"{NAME}-v6" if ":" in address else NAME
    path = f"{SLICES}/{name}"
    held = yield Call("GET", path)
    if held.ok and (held.body.get("endpoints"), held.body.get("ports")) == _wanted(address, port, held.body):
        return Outcome(True)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {
            "kubernetes.io/service-name": SERVICE,
            "endpointslice.kubernetes.io/managed-by": "npu-warden",
            PART_OF: "npu-warden",
        },
    }
    body: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "grpc", "port": port, "protocol": "TCP"}],
    }
    if held.ok:
        metadata["resourceVersion"] = held.body["metadata"]["resourceVersion"]
        reply = yield Call("PUT", path, body)
    else:
        reply = yield Call("POST", SLICES, body)
    if reply.ok:
        return Outcome(True)
    return failed(reply, f"EndpointSlice {NAMESPACE}/{name}: MS Controllers do not find this leader; {REMEDY}")


def _wanted(address: str, port: int, held: dict[str, Any]) -> tuple[Any, Any]:
    """What `held` says if it leads here; the API server fills in defaults, which are left as they are."""
    endpoints, ports = held.get("endpoints") or [{}], held.get("ports") or [{}]
    here = [{**endpoints[0], "addresses": [address]}]
    return here, [{**ports[0], "port": port}]
