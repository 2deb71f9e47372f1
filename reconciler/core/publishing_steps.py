"""The one write of a global rank table: in the version that was decided on, or as a new ConfigMap."""

from __future__ import annotations

from typing import Any

from reconciler.core.actions import PublishTable
from reconciler.core.calls import MERGE_PATCH, Call, Step
from reconciler.core.configmap_steps import written
from reconciler.core.resources import RINGS_CONFIG
from reconciler.ranktable import schema


def publish_table(action: PublishTable) -> Step:
    """Created by POST: of two leaders one is refused, and reads what the other has written.

    Kubernetes removes it with the last job of controllers and coordinators; while one stands, group ids are kept.
    """
    name = f"{schema.PREFIX}{action.job_id}"
    path = RINGS_CONFIG.path(action.namespace, name)
    owners = [
        {"apiVersion": o.api_version, "kind": o.kind, "name": o.metadata.name, "uid": o.metadata.uid}
        for o in action.owners
    ]
    metadata: dict[str, Any] = {"annotations": dict(action.annotations), "ownerReferences": owners}
    body: dict[str, Any] = {"metadata": metadata, "data": {schema.KEY: action.text}}
    if action.version is None:
        metadata |= {"name": name, "namespace": action.namespace, "labels": {"jobID": action.job_id}}
        call = Call(
            "POST", RINGS_CONFIG.collection(action.namespace), {"apiVersion": "v1", "kind": "ConfigMap", **body}
        )
    else:
        metadata["resourceVersion"] = action.version
        call = Call("PATCH", path, body, MERGE_PATCH)
    reply = yield call
    what = f"write of ConfigMap {action.namespace}/{name}: the MS Controller keeps the rank table it has"
    if reply.status == 403:
        what += '; remedy: kubectl apply -k deploy/components/ranktable, or [ranktable] serve = "off" in policy.toml'
    return (yield from written(reply, RINGS_CONFIG, path, what))
