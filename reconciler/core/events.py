"""Kubernetes Events: what a person sees in `kubectl describe`. Best effort, nothing depends on them or waits for them.

Those of one object and reason become one Event that counts (event_book.py).
"""

from __future__ import annotations

import hashlib
from typing import Any

from reconciler.core import clock
from reconciler.core.calls import Call
from reconciler.core.resources import EVENT
from shared.model import Instant
from shared.names import ORIGIN_LABEL


def event(
    kind: str,
    namespace: str,
    name: str,
    uid: str,
    reason: str,
    message: str,
    type_: str,
    now: Instant,
    *,
    drill: bool = False,
) -> Call:
    """A Kubernetes Event about an object, for people. A Node has no namespace: its Events stand in `default`.

    drill: it is told of a drill, says so in its first word and in the label `npuwarden.io/origin`, and warns nobody.
    """
    where = namespace or "default"
    at = clock.seconds(now.wall)
    digest = hashlib.sha256(f"{kind}/{where}/{name}/{reason}/{now.wall}".encode()).hexdigest()[:12]
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:200]}.{digest}", "namespace": where},
        "involvedObject": {"kind": kind, "namespace": namespace, "name": name, "uid": uid},
        "reason": reason,
        "message": (f"drill: {message}" if drill else message)[:1024],
        "type": "Normal" if drill else type_,
        "source": {"component": "npu-warden"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    if drill:
        body["metadata"]["labels"] = {ORIGIN_LABEL: "drill"}
    return Call("POST", EVENT.collection(where), body, aside=True)
