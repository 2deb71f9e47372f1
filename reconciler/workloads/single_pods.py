"""Deployment, StatefulSet and what stands above them (an OME InferenceService): each pod is an instance of its own.

A StatefulSet does not replace a pod that hangs on a dead node, a Deployment does at once: both bring the pod back once
the old one is deleted. Its neighbours are never taken along. Source: Kubernetes apps/v1 controllers.
"""

from __future__ import annotations

from reconciler.core.memberships import deleted, of_controller, single_pod
from reconciler.core.objects import Owner, Pod, Recovery
from reconciler.core.units import Index, NoUnit, Unit


class SinglePods:
    controllers = frozenset({"ReplicaSet.apps", "StatefulSet.apps"})
    label = None
    kinds = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "InferenceService"})

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        return single_pod(pod, index)

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


WORKLOAD = SinglePods()
