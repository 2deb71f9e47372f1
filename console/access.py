"""How a person's hand reaches the warden: a node's annotations and a ConfigMap, written with the person's rights.

The reconciler takes no orders over HTTP: whoever may patch a node may isolate it, and the API server's audit log says
who did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.core.calls import JSON, MERGE_PATCH, Call, Reply
from reconciler.core.resources import CONTROL, NODE
from shared.names import CONTROL_CONFIGMAP, ISOLATE_ANNOTATION, NAMESPACE, RELEASE_ANNOTATION

if TYPE_CHECKING:  # importing it takes seconds
    from reconciler.kube.client import KubeClient

TIMEOUT_S = 10.0


def isolation(reason: str) -> dict[str, Any]:
    """Merge patch of a node that a person wants isolated."""
    return {"metadata": {"annotations": {ISOLATE_ANNOTATION: reason, RELEASE_ANNOTATION: None}}}


def release(reason: str) -> dict[str, Any]:
    """Merge patch of a node that a person wants back. The warden takes the annotation off when it has obeyed."""
    return {"metadata": {"annotations": {ISOLATE_ANNOTATION: None, RELEASE_ANNOTATION: reason}}}


def pausing(reason: str | None, until: str | None = None) -> dict[str, Any]:
    """Merge patch of the control ConfigMap: pause (until this RFC 3339 time, or without end), or go on (None)."""
    return {"data": {"paused": reason, "paused_until": until}}


@dataclass(frozen=True, slots=True)
class Done:
    """How the API server answered, and the reason that stood there before (None: there was none, or it is not ours to
    read). until: the RFC 3339 time at which a pause was to end by itself."""

    reply: Reply
    before: str | None = None
    until: str | None = None


async def _signed(client: KubeClient, reason: str) -> str:
    """The reason and whose it is, in the API server's own words; where it does not say, the reason alone."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await client.send(
        Call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body), timeout_s=TIMEOUT_S
    )
    user = ((reply.body.get("status") or {}).get("userInfo") or {}).get("username") if reply.ok else None
    return f"{reason} (by {user})" if user else reason


async def patch_node(kubeconfig: str | None, name: str, wish: Callable[[str], dict[str, Any]], reason: str) -> Done:
    """Write a wish (`isolation`, `release`) with its reason and author. `before`: why a person had the node isolated.

    Raises ConfigError when there is no usable kubeconfig.
    """
    from reconciler.kube.client import connected

    path = NODE.path("", name)
    async with connected(kubeconfig) as client:
        found = await client.send(Call("GET", path), timeout_s=TIMEOUT_S)
        if found.status == 0:
            return Done(found)
        annotations = (found.body.get("metadata") or {}).get("annotations") or {}
        patch = wish(await _signed(client, reason))
        reply = await client.send(Call("PATCH", path, patch, MERGE_PATCH), timeout_s=TIMEOUT_S)
        return Done(reply, annotations.get(ISOLATE_ANNOTATION))


async def set_paused(kubeconfig: str | None, reason: str | None, until: str | None = None) -> Done:
    """Pause the warden, or let it go on; a control ConfigMap that is not there yet is made.

    `before`: why it was paused. Raises ConfigError.
    """
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        patch = pausing(reason and await _signed(client, reason), until)
        path = CONTROL.path(NAMESPACE, CONTROL_CONFIGMAP)
        found = await client.send(Call("GET", path), timeout_s=TIMEOUT_S)
        if found.status == 0:
            return Done(found)
        stood = (found.body.get("data") or {}) if found.ok else {}
        before, ended = stood.get("paused") or None, stood.get("paused_until") or None
        reply = await client.send(Call("PATCH", path, patch, MERGE_PATCH), timeout_s=TIMEOUT_S)
        if reply.status != 404 or reason is None:
            return Done(reply, before, ended)
        metadata = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **patch}
        return Done(await client.send(Call("POST", CONTROL.collection(NAMESPACE), body, JSON), timeout_s=TIMEOUT_S))
