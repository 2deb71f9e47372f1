"""A drill's request and its report are annotations of the node it is for, written with the person's own rights."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console.access import TIMEOUT_S
from reconciler.core.calls import MERGE_PATCH, Call, Reply
from reconciler.core.resources import NODE
from shared.names import DRILL_ANNOTATION, DRILL_REPORT_ANNOTATION

if TYPE_CHECKING:  # importing it takes seconds
    from reconciler.kube.client import KubeClient

TRIES = 5
"""Kubelets and the warden write to nodes too; a conflict is read and tried anew."""

Annotations = dict[str, Any]
_REVIEW = Call(
    "POST",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
)


class Taken(Exception):
    """Another drill is asked for on this node. The text names it."""


async def ask(kubeconfig: str | None, node: str, request: dict[str, Any]) -> Reply:
    """Write the request, signed with the user's name, if no other one holds there. Raises Taken, ConfigError."""
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        who = await client.send(_REVIEW, timeout_s=TIMEOUT_S)
        user = ((who.body.get("status") or {}).get("userInfo") or {}).get("username") if who.ok else None
        text = json.dumps({**request, "by": user or ""})

        def begin(found: Annotations) -> Annotations:
            other = _read(found.get(DRILL_ANNOTATION))
            if other is not None and float(other.get("until") or 0) > time.time():
                hint = f"`npu-warden drill stop --node {node}` ends it"
                raise Taken(f"drill {other.get('name')} is asked for on {node}: {hint}")
            return {DRILL_ANNOTATION: text}

        return await _edit(client, node, begin)


async def end(kubeconfig: str | None, node: str, *, name: str = "", report: str | None = None) -> tuple[Reply, str]:
    """Take the request off (only that of drill `name`, if given) and keep the report. Also whose request it was."""
    from reconciler.kube.client import connected

    names = [""]

    def finish(found: Annotations) -> Annotations:
        stands = _read(found.get(DRILL_ANNOTATION)) or {}
        names.append(str(stands.get("name") or ""))
        kept = {} if report is None else {DRILL_REPORT_ANNOTATION: report}
        return kept if name and names[-1] != name else {DRILL_ANNOTATION: None, **kept}

    async with connected(kubeconfig) as client:
        reply = await _edit(client, node, finish)
    return reply, names[-1]


async def kept(kubeconfig: str | None, node: str) -> tuple[Reply, str | None]:
    """The report of the newest drill of the node."""
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        found = await client.send(Call("GET", NODE.path("", node)), timeout_s=TIMEOUT_S)
        return found, _annotations(found).get(DRILL_REPORT_ANNOTATION)


async def _edit(client: KubeClient, node: str, change: Callable[[Annotations], Annotations]) -> Reply:
    """Patch annotations under the version they were read at."""
    path = NODE.path("", node)
    for _ in range(TRIES):
        found = await client.send(Call("GET", path), timeout_s=TIMEOUT_S)
        if not found.ok:
            return found
        version = found.body["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "annotations": change(_annotations(found))}}
        reply = await client.send(Call("PATCH", path, patch, MERGE_PATCH), timeout_s=TIMEOUT_S)
        if reply.status != 409:
            break
    return reply


def _annotations(found: Reply) -> Annotations:
    return (found.body.get("metadata") or {}).get("annotations") or {} if found.ok else {}


def _read(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
