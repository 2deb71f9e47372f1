"""A drill's request and its report are annotations of the node it is for, written with the person's own rights; so is
the status of the pod that a drill ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console.access import TIMEOUT_S
from reconciler.core.calls import MERGE_PATCH, Call, Reply
from reconciler.core.resources import NODE, POD
from shared.names import DRILL_ANNOTATION, DRILL_CONDITION, DRILL_REPORT_ANNOTATION

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


async def confirm(kubeconfig: str | None, node: str, name: str) -> Reply:
    """The reconciler has not refused it: whoever carries it out beside the agents (the lab) may begin."""
    from reconciler.kube.client import connected

    def go(found: Annotations) -> Annotations:
        stands = _read(found.get(DRILL_ANNOTATION)) or {}
        return {DRILL_ANNOTATION: json.dumps({**stands, "go": True})} if stands.get("name") == name else {}

    async with connected(kubeconfig) as client:
        return await _edit(client, node, go)


async def in_lab(kubeconfig: str | None) -> tuple[Reply, bool]:
    """Whether this API server is the lab's."""
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        reply = await client.send(Call("GET", "/version"), timeout_s=TIMEOUT_S)
        return reply, str(reply.body.get("gitVersion")).endswith("+lab")


async def pod(kubeconfig: str | None, key: str) -> tuple[Reply, str, str]:
    """Of the pod `namespace/name`: its node and its UID."""
    from reconciler.kube.client import connected

    namespace, _, name = key.partition("/")
    async with connected(kubeconfig) as client:
        found = await client.send(Call("GET", POD.path(namespace, name)), timeout_s=TIMEOUT_S)
    meta, spec = found.body.get("metadata") or {}, found.body.get("spec") or {}
    return found, str(spec.get("nodeName") or ""), str(meta.get("uid") or "")


async def fail_pod(kubeconfig: str | None, key: str, uid: str, drill: str) -> Reply:
    """The pod has Failed, says the API server from now on; its kubelet then ends the containers within the pod's grace.

    Source: kubelet, pod_workers.go (a pod that the API server shows in a terminal phase is torn down, the phase stays).
    The right is `patch` of pods/status, which runs nothing in a container, as `exec` would.
    """
    from reconciler.kube.client import connected

    namespace, _, name = key.partition("/")
    path = POD.path(namespace, name)
    async with connected(kubeconfig) as client:
        for _ in range(TRIES):
            found = await client.send(Call("GET", path), timeout_s=TIMEOUT_S)
            if not found.ok:
                return found
            meta, status = found.body["metadata"], found.body.get("status") or {}
            if meta["uid"] != uid:
                return Reply(409, {"reason": "Conflict", "message": f"pod {key} is another one by now"})
            patch = {
                "metadata": {"uid": uid, "resourceVersion": meta["resourceVersion"]},
                "status": _failed(status, drill),
            }
            reply = await client.send(Call("PATCH", f"{path}/status", patch, MERGE_PATCH), timeout_s=TIMEOUT_S)
            if reply.status != 409:
                break
    return reply


def _failed(status: dict[str, Any], drill: str) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    gone = {"status": "False", "reason": "PodFailed", "lastTransitionTime": at}
    mark = {"type": DRILL_CONDITION, "status": "True", "message": drill, "lastTransitionTime": at}
    conditions = [
        {**one, **gone} if one.get("type") in ("Ready", "ContainersReady") else one
        for one in status.get("conditions") or ()
    ]
    return {
        "phase": "Failed",
        "reason": "Drill",
        "message": f"ended by drill {drill}",
        "conditions": [*conditions, mark],
    }


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
