"""The ends of containers' logs, kept beside a Recovery: which are asked for, how much stays, where it stands.

A ConfigMap `npuwarden-evidence-<recovery>` in the recovery's namespace, owned by the Recovery and gone with it: whoever
may read pods' logs there by the built-in role `view` may read it, and nobody else. Its one key is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from reconciler.core.objects import Node, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.resources import RINGS_CONFIG
from shared.names import API_VERSION, EVIDENCE_CONFIGMAP

LINES = 50
"""Of each container, the newest."""
ASKED_BYTES = 256 * 1024
"""What one read may bring; lines longer than that together come without their end."""
CONTAINERS = 64
"""Read for one recovery, in the order of its pods; further ones are named as left out."""
POD_BYTES = 16 * 1024
RECOVERY_BYTES = 256 * 1024
"""Together with JSON's escapes that stays below half of what an object may have (1 MiB)."""
KEY = "logs.json"

RIGHTS = "the account has no right to it: install the component deploy/components/evidence"


class ContainerLog(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of one container's log when its pod was about to be deleted.

    text: its last lines, the oldest first. cut: lines or the beginning of one are missing for want of room. missing:
    why there is no text.
    """

    pod: str
    container: str
    node: str | None = None
    text: str = ""
    cut: bool = False
    missing: str | None = None


class KeptLogs(msgspec.Struct, frozen=True):
    """What is kept of a recovery's logs. note: why there are none, None = there are."""

    logs: list[ContainerLog]
    note: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """One log to read. missing: why it need not be tried."""

    pod: str
    container: str
    node: str | None
    missing: str | None = None


def wanted(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Wanted]:
    """The logs of these pods. A node whose kubelet does not answer is not asked: the read would only hang."""
    found: list[Wanted] = []
    asked = 0
    for pod in pods:
        node = nodes.get(pod.node) if pod.node is not None else None
        missing = None
        if pod.node is None:
            missing = "the pod was on no node"
        elif node is None or not node.ready:
            missing = f"node {pod.node} does not answer: its kubelet, which has the log, is not Ready"
        for container in pod.spec.containers:
            if missing is None and asked >= CONTAINERS:
                missing = f"more than {CONTAINERS} containers: left out"
            asked += missing is None
            found.append(Wanted(pod.metadata.name, container.name, pod.node, missing))
    return found


def path_of(namespace: str, one: Wanted) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Path and query of the read (core/v1 Pod, subresource log)."""
    query = {"container": one.container, "tailLines": LINES, "limitBytes": ASKED_BYTES, "timestamps": "true"}
    return f"/api/v1/namespaces/{namespace}/pods/{one.pod}/log", tuple((k, str(v)) for k, v in query.items())


def fitted(logs: Sequence[ContainerLog]) -> list[ContainerLog]:
    """The same within the bounds: of what is too long the end stays, for that is where the reason is."""
    in_pod: dict[str, int] = {}
    for log in logs:
        if log.text:
            in_pod[log.pod] = in_pod.get(log.pod, 0) + 1
    of_pod = min(POD_BYTES, RECOVERY_BYTES // max(1, len(in_pod)))
    return [_ending(log, of_pod // in_pod[log.pod]) if log.text else log for log in logs]


def _ending(log: ContainerLog, size: int) -> ContainerLog:
    # As JSON: a byte of a binary log can be six there.
    raw = log.text
    if len(msgspec.json.encode(raw)) <= size:
        return log
    while len(msgspec.json.encode(raw)) > size:
        over = len(msgspec.json.encode(raw)) - size
        raw = raw[max(1, over // 6) :]
    whole = raw.partition("\n")[2]  # the first line has lost its beginning
    return msgspec.structs.replace(log, text=whole or raw, cut=True)


def text_of(raw: bytes) -> str:
    """A log as text: what is no UTF-8 is shown as such, and NULs as nothing."""
    return raw.decode(errors="replace").replace("\0", "").rstrip("\n")


def name_of(recovery: str) -> str:
    return f"{EVIDENCE_CONFIGMAP}{recovery}"


def collection(namespace: str) -> str:
    return RINGS_CONFIG.collection(namespace)


def configmap(recovery: Recovery, logs: Sequence[ContainerLog]) -> dict[str, Any]:
    """The object to create: it never changes, and goes with the Recovery."""
    meta = recovery.metadata
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(meta.name),
            "namespace": meta.namespace,
            "labels": {"app.kubernetes.io/part-of": "npu-warden"},
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "Recovery", "name": meta.name, "uid": meta.uid}],
        },
        "immutable": True,
        "data": {KEY: msgspec.json.encode(fitted(logs)).decode()},
    }


def read(obj: Mapping[str, Any], recovery: Recovery) -> list[ContainerLog] | None:
    """The logs in a ConfigMap; None when it is not this Recovery's, or somebody has written something else into it."""
    if recovery.metadata.uid not in list(_owners(obj)):
        return None
    try:
        return msgspec.json.decode((obj.get("data") or {}).get(KEY, ""), type=list[ContainerLog])
    except (msgspec.MsgspecError, RecursionError, TypeError):
        return None


def _owners(obj: Mapping[str, Any]) -> Iterator[str]:
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or ():
        yield str(owner.get("uid", ""))
