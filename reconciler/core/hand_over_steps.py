"""The mark on a pod that tells the infer-operator to restart its instance: set, or taken off, on this incarnation."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from reconciler.core.actions import HandOver, Mark
from reconciler.core.calls import JSON_PATCH, Call, Outcome, Reply, Step, failed
from reconciler.core.delete_steps import last_look
from reconciler.core.handing_over import POD_STATUS
from reconciler.core.resources import POD, resource_of
from reconciler.workloads.infer_operator import OPERATOR, available

_PATH = "/metadata/annotations/" + POD_STATUS.replace("/", "~1")


def hand_over(action: HandOver, holder: str) -> Step:
    """The last look, the operator included, then each mark under the pod's UID and resourceVersion."""
    refusal = yield from last_look(action, holder)
    if refusal is not None:
        return refusal
    if any(mark.value is not None for mark in action.marks):
        deployment = resource_of("apps/v1", "Deployment")
        assert deployment is not None
        reply = yield Call("GET", deployment.path(*OPERATOR))
        if not reply.ok and reply.status != 404:
            return failed(reply, "read of the infer-operator's Deployment")
        if not reply.ok or not available(reply.body.get("status") or {}):
            seen = (reply.body,) if reply.ok else ()
            return Outcome(False, "operator-gone", "the infer-operator does not run any more: nothing is marked", seen)
    seen_pods: list[dict[str, Any]] = []
    gone: list[tuple[str, str, str]] = []
    for mark in action.marks:
        key = f"{action.recovery.metadata.namespace}/{mark.pod}"
        reply = yield from _mark(action.recovery.metadata.namespace, mark)
        if reply.ok:
            seen_pods.append(reply.body)
        elif reply.status != 404:
            refused = failed(reply, f"mark on pod {key}")
            return Outcome(False, refused.reason, refused.message, tuple(seen_pods), tuple(gone))
        if reply.status == 404 or reply.body["metadata"]["uid"] != mark.uid:
            gone.append(("Pod", key, mark.uid))
    return Outcome(True, seen=tuple(seen_pods), gone=tuple(gone))


def _mark(namespace: str, mark: Mark) -> Generator[Call, Reply, Reply]:
    """The pod as it is afterwards; one that is gone, replaced or on its way out is left as it is."""
    path = POD.path(namespace, mark.pod)
    reply = yield Call("GET", path)
    if not reply.ok or reply.body["metadata"]["uid"] != mark.uid:
        return reply
    meta = reply.body["metadata"]
    annotations = meta.get("annotations") or {}
    if meta.get("deletionTimestamp") or annotations.get(POD_STATUS) == mark.value:
        return reply
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": mark.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
    ]
    if mark.value is None:
        patch.append({"op": "remove", "path": _PATH})
    elif annotations:
        patch.append({"op": "add", "path": _PATH, "value": mark.value})
    else:
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {POD_STATUS: mark.value}})
    answer = yield Call("PATCH", path, patch, JSON_PATCH)
    return answer
