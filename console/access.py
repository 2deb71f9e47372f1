"""How a person's hand reaches the warden: a node's annotations and a ConfigMap, written with the person's rights.

The reconciler takes no orders over HTTP: whoever may patch a node may isolate it, and the API server's audit log says
who did.
"""

from __future__ import annotations

from typing import Any

from reconciler.core.calls import JSON, MERGE_PATCH, Call, Reply
from reconciler.core.resources import CONTROL, NODE
from shared.names import CONTROL_CONFIGMAP, ISOLATE_ANNOTATION, NAMESPACE, RELEASE_ANNOTATION

TIMEOUT_S = 10.0


def isolation(reason: str) -> dict[str, Any]:
    """Merge patch of a node that a person wants isolated."""
    return {"metadata": {"annotations": {ISOLATE_ANNOTATION: reason, RELEASE_ANNOTATION: None}}}


def release(reason: str) -> dict[str, Any]:
    """Merge patch of a node that a person wants back. The warden takes the annotation off when it has obeyed."""
    return {"metadata": {"annotations": {ISOLATE_ANNOTATION: None, RELEASE_ANNOTATION: reason}}}


def pausing(reason: str | None) -> dict[str, Any]:
    """Merge patch of the control ConfigMap: pause, or go on (None)."""
    return {"data": {"paused": reason}}


async def patch_node(kubeconfig: str | None, name: str, patch: dict[str, Any]) -> Reply:
    """Raises ConfigError when there is no usable kubeconfig."""
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        return await client.send(Call("PATCH", NODE.path("", name), patch, MERGE_PATCH), timeout_s=TIMEOUT_S)


async def set_paused(kubeconfig: str | None, reason: str | None) -> Reply:
    """Pause the warden, or let it go on; a control ConfigMap that is not there yet is made. Raises ConfigError."""
    from reconciler.kube.client import connected

    patch = pausing(reason)
    async with connected(kubeconfig) as client:
        path = CONTROL.path(NAMESPACE, CONTROL_CONFIGMAP)
        reply = await client.send(Call("PATCH", path, patch, MERGE_PATCH), timeout_s=TIMEOUT_S)
        if reply.status != 404 or reason is None:
            return reply
        metadata = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **patch}
        return await client.send(Call("POST", CONTROL.collection(NAMESPACE), body, JSON), timeout_s=TIMEOUT_S)
