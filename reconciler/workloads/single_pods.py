"""Deployment, StatefulSet and what stands above them (an OME InferenceService): each pod is an instance of its own.

A StatefulSet does not replace a pod that hangs on a dead node, a Deployment does at once: both bring the pod back once
the old one is deleted. Its neighbours are never taken along. Where the controller has replaced the pod by itself, or
wants it no more, there is nothing to bring back and the pod is left alone. Source: Kubernetes apps/v1 controllers.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.core.memberships import deleted, of_controller, single_pod
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, NoUnit, Unit


class SinglePods:
    controllers = frozenset({"ReplicaSet.apps", "StatefulSet.apps"})
    label = None
    kinds = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "InferenceService"})
    rebuilt = False

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        found = single_pod(pod, index)
        if isinstance(found, Unit) and found.blocked is None:
            return replace(found, blocked=_unwanted(pod, found.chain) or _replaced(pod, found.chain[0]))
        return found

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def _unwanted(pod: Pod, chain: tuple[Owner, ...]) -> tuple[str, str] | None:
    """Scaled down: the controller does not make this pod again."""
    for owner in chain:
        replicas = owner.spec.get("replicas")
        if replicas == 0:
            return "owner-deleted", f"{owner.kind} {owner.metadata.name} is scaled to 0: the pod would not come back"
        if owner.kind == "StatefulSet" and isinstance(replicas, int) and _ordinal(pod) >= _first(owner) + replicas:
            message = f"StatefulSet {owner.metadata.name} has {replicas} replicas: {pod.metadata.name} is to go"
            return "owner-deleted", message
    return None


def _ordinal(pod: Pod) -> int:
    text = pod.metadata.name.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def _first(owner: Owner) -> int:
    ordinals = owner.spec.get("ordinals")
    start = ordinals.get("start") if isinstance(ordinals, dict) else None
    return start if isinstance(start, int) else 0


def _replaced(pod: Pod, controller: Owner) -> tuple[str, str] | None:
    """Someone else has ended the pod and its controller makes the next one without our help.

    A ReplicaSet counts neither pods on their way out nor ended ones; a StatefulSet deletes what has ended itself, but
    waits for a pod that is terminating. The kubelet names its reason where it ended the pod (Evicted, ...).
    """
    name = pod.metadata.name
    if pod.terminating and controller.kind == "ReplicaSet":
        return "foreign-actor", f"{name} is being deleted by someone else: its ReplicaSet has made the next one"
    if pod.failed and pod.status.reason:
        why = f"the kubelet has ended {name} ({pod.status.reason})"
        return "foreign-actor", f"{why}: its {controller.kind} makes the next one"
    return None


WORKLOAD = SinglePods()
