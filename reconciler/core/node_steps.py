"""Steps on a node: taint and record written and read back, taken off, condition written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Isolate, KeepOffered, KeepRecord, Release, SetCondition
from reconciler.core.calls import MERGE_PATCH, STRATEGIC_PATCH, Call, Outcome, Step, failed
from reconciler.core.events import event
from reconciler.core.objects import Node
from reconciler.core.resources import NODE
from reconciler.core.state import Record
from reconciler.core.taints import current_want, record_of, with_taint
from reconciler.core.wishes import is_signed, writer_of
from shared.model import Instant
from shared.names import (
    CONDITION,
    ISOLATE_ANNOTATION,
    ISOLATION_ANNOTATION,
    OFFERED_ANNOTATION,
    RELEASE_ANNOTATION,
)

_CONFLICT_TRIES = 4
"""A node's status is written by its kubelet now and then: so often a conflict is taken for a coincidence."""


def _patch_node(node: Node, change: Callable[[Node], dict[str, Any] | Outcome]) -> Step:
    """Merge-patch a node under its resourceVersion; on a conflict look again and decide again on what is there now.

    `change` makes the patch for the node as it is, or refuses it.
    """
    path = NODE.path("", node.metadata.name)
    seen: tuple[Any, ...] = ()
    for _ in range(_CONFLICT_TRIES):
        patch = change(node)
        if isinstance(patch, Outcome):
            return dataclasses.replace(patch, seen=seen)
        patch.setdefault("metadata", {})["resourceVersion"] = node.metadata.resource_version
        reply = yield Call("PATCH", path, patch, MERGE_PATCH)
        if reply.ok:
            return Outcome(True, seen=(reply.body,))
        if reply.status != 409:
            return failed(reply, f"write to node {node.metadata.name}")
        fresh = yield Call("GET", path)
        if not fresh.ok:
            return failed(fresh, f"read of node {node.metadata.name}")
        if fresh.body["metadata"]["uid"] != node.metadata.uid:
            return Outcome(False, "conflict", f"node {node.metadata.name} is another machine now", (fresh.body,))
        node, seen = msgspec.convert(fresh.body, Node), (fresh.body,)
    return Outcome(False, "conflict", f"node {node.metadata.name} changes faster than it can be written")


def isolate(action: Isolate, now: Instant) -> Step:
    added = clock.seconds(now.wall)

    def change(node: Node) -> dict[str, Any] | Outcome:
        if node.opted_out:  # set since it was decided
            return Outcome(False, "opt-out", f"node {node.metadata.name} is left alone by its label")
        return {
            "metadata": {"annotations": {ISOLATION_ANNOTATION: _json(action.record)}},
            "spec": {"taints": with_taint(node, action.want, added)},
        }

    outcome: Outcome = yield from _patch_node(action.node, change)
    if not outcome.done:
        return outcome
    # Read back: an admission webhook may have dropped the taint, and then nothing may be deleted for it.
    name = action.node.metadata.name
    reply = yield Call("GET", NODE.path("", name))
    if not reply.ok:
        return failed(reply, f"read back of the taint on node {name}")
    if current_want(msgspec.convert(reply.body, Node)) != action.want:
        return Outcome(False, "not-read-back", f"node {name} does not show the taint that was written", (reply.body,))
    message = f"{action.want.effect} for {'; '.join(action.record.reasons)}"
    drill = action.record.by == "drill"
    yield event("Node", "", name, action.node.metadata.uid, "NPUIsolated", message, "Warning", now, drill=drill)
    return Outcome(True, seen=(reply.body,))


def keep_record(action: KeepRecord) -> Step:
    text = None if action.record is None else _json(action.record)
    return _patch_node(action.node, lambda _node: {"metadata": {"annotations": {ISOLATION_ANNOTATION: text}}})


def keep_offered(action: KeepOffered) -> Step:
    meta = action.node.metadata
    # The UID is the precondition: a machine that joins under the same name has a history of its own.
    notes = {OFFERED_ANNOTATION: msgspec.json.encode(action.most).decode()}
    body = {"metadata": {"uid": meta.uid, "annotations": notes}}
    reply = yield Call("PATCH", NODE.path("", meta.name), body, MERGE_PATCH)
    if not reply.ok:
        return failed(reply, f"what node {meta.name} has offered")
    return Outcome(True, seen=(reply.body,))


def release(action: Release, now: Instant) -> Step:
    why = action.why
    if action.by_hand:
        # Who asked stands beside the wish, and goes with it.
        asked = yield Call("GET", NODE.path("", action.node.metadata.name))
        by = writer_of(asked.body, "metadata", "annotations", RELEASE_ANNOTATION) if asked.ok else ""
        why = f"{why}; by {by}" if by and not is_signed(why) else why
    annotations: dict[str, str | None] = {ISOLATION_ANNOTATION: None if action.record is None else _json(action.record)}
    if action.by_hand:
        # The wish is consumed with its fulfilment: a crash in between repeats it, it is never half-done.
        # What the node offered before is forgotten: a person takes it as it is.
        annotations |= {RELEASE_ANNOTATION: None, ISOLATE_ANNOTATION: None, OFFERED_ANNOTATION: None}

    def change(node: Node) -> dict[str, Any]:
        return {"metadata": {"annotations": annotations}, "spec": {"taints": with_taint(node, None, "") or None}}

    outcome: Outcome = yield from _patch_node(action.node, change)
    if outcome.done:
        meta = action.node.metadata
        record = record_of(action.node)
        drill = record is not None and record.by == "drill"
        yield event("Node", "", meta.name, meta.uid, "NPUReleased", why, "Normal", now, drill=drill)
    return dataclasses.replace(outcome, message=why) if outcome.done and action.by_hand else outcome


def set_condition(action: SetCondition, now: Instant) -> Step:
    held = action.node.condition(CONDITION)
    since = clock.seconds(now.wall)
    changed = held.last_transition_time if held is not None and held.status == action.status else since
    condition = {
        "type": CONDITION,
        "status": action.status,
        "reason": action.reason,
        "message": action.message,
        "lastTransitionTime": changed or since,
        "lastHeartbeatTime": since,
    }
    path = NODE.path("", action.node.metadata.name) + "/status"
    # The UID is the precondition: a node re-created under its name is another machine.
    body = {"metadata": {"uid": action.node.metadata.uid}, "status": {"conditions": [condition]}}
    reply = yield Call("PATCH", path, body, STRATEGIC_PATCH)
    if not reply.ok:
        return failed(reply, f"condition of node {action.node.metadata.name}")
    return Outcome(True, seen=(reply.body,))


def _json(record: Record) -> str:
    return msgspec.json.encode(record).decode()
