"""Where the MS Controllers find the server: the leader's address behind the Service that carries ClusterD's name.

ascend-operator tells the pods that name, and a Service selects pods of its own namespace only. So it has no selector,
and its one EndpointSlice is written by whoever leads. Pure: the calls are driven by serving.py.
Source: Kubernetes discovery.k8s.io/v1; MindCluster (Service `clusterd-grpc-svc` in `mindx-dl`, port 8899).
"""

from __future__ import annotations

from typing import Any

from reconciler.core.calls import Call, Outcome, Step, failed
from reconciler.core.fold import PART_OF, is_stand_in
from reconciler.core.resources import CLUSTERD

NAMESPACE, SERVICE = str(CLUSTERD.namespace), str(CLUSTERD.name)
NAME = "npuwarden-ranktable"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
REMEDY = "remedy: kubectl apply -k deploy/components/ranktable"


def point_here(address: str, port: int) -> Step:
    """The Service's one endpoint is this address; where the Service is ClusterD's own, none of ours is."""
    service = yield Call("GET", CLUSTERD.path(NAMESPACE, SERVICE))
    if not service.ok:
        return failed(service, f"no Service {NAMESPACE}/{SERVICE} leads MS Controllers here; {REMEDY}")
    labels = service.body["metadata"].get("labels") or {}
    if not is_stand_in(labels, service.body.get("spec") or {}):
        taken_back = yield from lead_nowhere()
        foreign = f"Service {NAMESPACE}/{SERVICE} is ClusterD's: it leads nobody here"
        return Outcome(False, "foreign", foreign) if taken_back.done else taken_back
    owner = {"apiVersion": "v1", "kind": "Service", "name": SERVICE, "uid": service.body["metadata"]["uid"]}
    name = f"{NAME}-v6" if ":" in address else NAME
    path = f"{SLICES}/{name}"
    held = yield Call("GET", path)
    if held.ok and _stands(held.body) == ([owner], *_wanted(address, port, held.body)):
        return Outcome(True)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {
            "kubernetes.io/service-name": SERVICE,
            "endpointslice.kubernetes.io/managed-by": "npu-warden",
            PART_OF: "npu-warden",
        },
        "ownerReferences": [owner],
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


def lead_nowhere() -> Step:
    """No slice of ours holds an address, of whichever leader. Behind a Service that is ClusterD's by now, or of a
    leader that serves no more, it would send MS Controllers where nobody listens."""
    for name in (NAME, f"{NAME}-v6"):
        path = f"{SLICES}/{name}"
        held = yield Call("GET", path)
        if held.status == 404 or (held.ok and not held.body.get("endpoints")):
            continue
        reply = (yield Call("PUT", path, {**held.body, "endpoints": []})) if held.ok else held
        if not reply.ok:
            return failed(reply, f"EndpointSlice {NAMESPACE}/{name}: it may still send MS Controllers here; {REMEDY}")
    return Outcome(True)


def _stands(held: dict[str, Any]) -> tuple[Any, Any, Any]:
    return held["metadata"].get("ownerReferences"), held.get("endpoints"), held.get("ports")


def _wanted(address: str, port: int, held: dict[str, Any]) -> tuple[Any, Any]:
    """What `held` says if it leads here; the API server fills in defaults, which are left as they are."""
    endpoints, ports = held.get("endpoints") or [{}], held.get("ports") or [{}]
    here = [{**endpoints[0], "addresses": [address]}]
    return here, [{**ports[0], "port": port}]
