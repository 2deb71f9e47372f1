"""The delete of a unit's pods: a last fresh look at everything it rests on, then each by its UID."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from reconciler.core.actions import DeletePods, HandOver
from reconciler.core.calls import Call, Outcome, Reply, Step, failed
from reconciler.core.objects import Node
from reconciler.core.recovery import Recovery
from reconciler.core.resources import NODE, POD, RECOVERY, resource_of
from reconciler.core.taints import isolated


def delete_pods(action: DeletePods, holder: str) -> Step:
    """The last look, then the deletes."""
    refusal = yield from last_look(action, holder)
    if refusal is not None:
        return refusal
    outcome: Outcome = yield from _delete_each(action)
    return outcome


def last_look(action: DeletePods | HandOver, holder: str) -> Generator[Call, Reply, Outcome | None]:
    """Every fact that the decision rests on is fetched once more: why not, or None = it is still right."""
    meta = action.recovery.metadata
    reply = yield Call("GET", RECOVERY.path(meta.namespace, meta.name))
    if reply.status == 404:
        return Outcome(False, "not-found", f"recovery {meta.key} is gone", gone=(("Recovery", meta.key, meta.uid),))
    if not reply.ok:
        return failed(reply, f"read of recovery {meta.key}")
    mine = msgspec.convert(reply.body, Recovery)
    if mine.metadata.uid != meta.uid or mine.status.holder != holder or mine.status.phase != "Deleting":
        message = f"recovery {meta.key} is {mine.status.phase}, held by {mine.status.holder or 'nobody'}"
        return Outcome(False, "claimed-elsewhere", message, (reply.body,))
    for owner in action.owners:
        resource = resource_of(owner.api_version, owner.kind)
        if resource is None:
            continue
        reply = yield Call("GET", resource.path(meta.namespace, owner.name))
        if not reply.ok and reply.status != 404:
            return failed(reply, f"read of {owner.kind} {owner.name}")
        standing = reply.ok and reply.body["metadata"].get("uid") == owner.uid
        if not standing or reply.body["metadata"].get("deletionTimestamp"):
            seen = (reply.body,) if reply.ok else ()
            gone = () if standing else ((owner.kind, owner.uid, owner.uid),)
            return Outcome(False, "owner-deleted", f"{owner.kind} {owner.name} does not stand any more", seen, gone)
    for name in action.nodes:
        reply = yield Call("GET", NODE.path("", name))
        if reply.status == 404:
            continue
        if not reply.ok:
            return failed(reply, f"read of node {name}")
        if not isolated(msgspec.convert(reply.body, Node)):
            return Outcome(
                False, "no-taint", f"node {name} carries no taint of ours: nothing is deleted", (reply.body,)
            )
    return None


def _delete_each(action: DeletePods) -> Step:
    seen: list[dict[str, Any]] = []
    gone: list[tuple[str, str, str]] = []
    refused: Reply | None = None
    begun = 0
    for victim in action.victims:
        key = f"{victim.namespace}/{victim.name}"
        path = POD.path(victim.namespace, victim.name)
        reply = yield Call("GET", path)
        if reply.ok and reply.body["metadata"]["uid"] == victim.uid:
            first = not reply.body["metadata"].get("deletionTimestamp")
            options: dict[str, Any] = {"preconditions": {"uid": victim.uid}}
            if victim.grace_s is not None:
                options["gracePeriodSeconds"] = victim.grace_s
            answer = yield Call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
            begun += first and (answer.ok or answer.status == 0)  # without an answer it may have been carried out
            if answer.ok:
                left = answer.body.get("metadata") or {}
                lingers = left.get("deletionGracePeriodSeconds") or left.get("finalizers")
                if answer.body.get("kind") == "Pod" and lingers:
                    seen.append(answer.body)
                else:
                    gone.append(("Pod", key, victim.uid))
                continue
            # A conflict means another UID, or only that the object was being written: look which.
            reply = (yield Call("GET", path)) if answer.status == 409 else answer
            if reply.ok and reply.body["metadata"]["uid"] == victim.uid:
                refused = answer
                continue
        if reply.status == 404:
            gone.append(("Pod", key, victim.uid))  # this incarnation is no more, whoever ended it
        elif reply.ok:
            gone.append(("Pod", key, victim.uid))
            seen.append(reply.body)
        else:
            refused = reply
    if refused is not None:
        refusal = failed(refused, f"delete of pods of {action.recovery.spec.unit}")
        return Outcome(False, refusal.reason, refusal.message, tuple(seen), tuple(gone), begun)
    return Outcome(True, seen=tuple(seen), gone=tuple(gone), deletes=begun)
