"""Kubernetes objects as plain data: how a scenario spells them, and what kubelets and a scheduler change in them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def spelling(obj: Object) -> str:
    """Kind/namespace/name, or Kind/name for what has no namespace."""
    metadata = obj["metadata"]
    return "/".join(part for part in (obj["kind"], metadata.get("namespace"), metadata["name"]) if part)


def with_ready(node: Object, status: str, at: str) -> Object:
    """The node with this Ready condition ("True", "False", "Unknown") since `at`."""
    current = node.get("status") or {}
    others = [c for c in current.get("conditions") or [] if c["type"] != "Ready"]
    ready = {"type": "Ready", "status": status, "lastTransitionTime": at}
    return {**node, "status": {**current, "conditions": [*others, ready]}}


def failed(pod: Object, exit_code: int, at: str) -> Object:
    """The pod with phase Failed: its containers ended with this code, it is Ready no more."""
    current = pod.get("status") or {}
    terminated = {"exitCode": exit_code, "reason": "Error", "finishedAt": at}
    containers = [
        {"name": c["name"], "ready": False, "restartCount": 0, "state": {"terminated": terminated}}
        for c in pod["spec"].get("containers") or []
    ]
    conditions = [
        c if c["type"] == "PodScheduled" else {**c, "status": "False", "lastTransitionTime": at}
        for c in current.get("conditions") or []
    ]
    status = {**current, "phase": "Failed", "conditions": conditions, "containerStatuses": containers}
    return {**pod, "status": status}


def unscheduled(pod: Object, at: str) -> Object:
    """The pod as the scheduler leaves it when no node takes it."""
    condition = _condition("PodScheduled", "False", at)
    condition |= {"reason": "Unschedulable", "message": "no node is free: tainted, or no room for the NPUs"}
    return {**pod, "status": {**pod["status"], "conditions": [condition]}}


def bound(pod: Object, node: str, at: str) -> Object:
    """The pod as the scheduler binds it."""
    status = {**pod["status"], "conditions": [_condition("PodScheduled", "True", at)]}
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def running(pod: Object, *, host_ip: str | None, pod_ip: str, at: str) -> Object:
    """The pod Running and Ready since `at`."""
    containers = [
        {"name": c["name"], "ready": True, "restartCount": 0, "state": {"running": {"startedAt": at}}}
        for c in pod["spec"].get("containers") or []
    ]
    status = {
        "phase": "Running",
        "hostIP": host_ip,
        "podIP": pod_ip,
        "startTime": at,
        "conditions": [_condition(kind, "True", at) for kind in ("PodScheduled", "ContainersReady", "Ready")],
        "containerStatuses": containers,
    }
    return {**pod, "status": status}


def _condition(kind: str, status: str, at: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at}
