"""AIBrix StormService (orchestration.aibrix.ai/v1alpha1): the PodSet of a role restarts; prefill dies, decode goes on.

Roles with podGroupSize 1 have no PodSet, their pods hang on the RoleSet: with `pod-rescheduling: "on"` the faulted pod
restarts alone (rank 0 is not special), without it all size-1 pods of the RoleSet do that have no such label.
Source: AIBrix PodSet and RoleSet controllers (labels, names, owner references).
"""

from __future__ import annotations

from typing import Any

from reconciler.core.memberships import chain_end, deleted, of_controller, orphan
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import POD_RESCHEDULING, Index, NoUnit, Unit, ref_of


class StormService:
    controllers = frozenset({"PodSet.orchestration.aibrix.ai", "RoleSet.orchestration.aibrix.ai"})
    label = None
    kinds = frozenset({"StormService", "PodSet", "RoleSet"})
    rebuilt = False

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        chain = index.chain(pod.metadata.controller)
        if not chain:
            return orphan(pod)
        controller, top = chain[0], chain[-1]
        members = tuple(index.by_controller.get(controller.metadata.uid, ()))
        level, instance, pods = "Instance", controller.metadata.name, members
        size, repairs = _pod_set_size(controller), ""
        if controller.kind == "RoleSet":
            repairs = "its RoleSet replaces a Failed pod itself, within milliseconds and at no retry"
            # The label steers on the pod alone: it is a wish of the role's template, and the RoleSet has several roles.
            if _restarts_alone(pod.metadata.labels):
                level, instance, pods, size = "Pod", pod.metadata.name, (pod,), 1
            else:
                pods, size = _together(members), _role_set_size(controller, members)
        return Unit(
            id=f"{pod.metadata.namespace}/{top.metadata.name}/{instance}",
            namespace=pod.metadata.namespace,
            instance=instance,
            level=level,
            workload=ref_of(top),
            controller=ref_of(controller),
            pods=pods,
            chain=chain,
            size=size,
            blocked=chain_end(chain, index),
            repairs=repairs,
        )

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        found, controller = of_controller(recovery, index), recovery.spec.controller
        whole = controller is not None and controller.kind == "RoleSet" and recovery.spec.level != "Pod"
        return _together(found) if whole else found

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def _pod_set_size(controller: Owner) -> int:
    size = controller.spec.get("podGroupSize")
    return size if controller.kind == "PodSet" and isinstance(size, int) else 0


def _restarts_alone(labels: Any) -> bool:
    return isinstance(labels, dict) and labels.get(POD_RESCHEDULING) == "on"


def _together(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Of the pods right below a RoleSet those that restart together."""
    return tuple(pod for pod in pods if not _restarts_alone(pod.metadata.labels))


def _role_set_size(controller: Owner, pods: tuple[Pod, ...]) -> int:
    """Pods right below the RoleSet that restart together: of the roles without PodSets, less those that do so alone.

    By the roles' templates, so that it holds while a pod is away; where none has the label, by the pods.
    """
    roles = controller.spec.get("roles")
    known = [role for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []
    single = [role for role in known if role.get("podGroupSize") in (None, 0, 1)]
    marked = [role for role in single if _restarts_alone(_template_labels(role))]
    alone = _replicas(marked) or sum(_restarts_alone(pod.metadata.labels) and not pod.terminating for pod in pods)
    return max(0, _replicas(single) - alone)


def _template_labels(role: dict[str, Any]) -> Any:
    found: Any = role
    for key in ("template", "metadata", "labels"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _replicas(roles: list[dict[str, Any]]) -> int:
    wanted = [role.get("replicas", 1) for role in roles]
    return sum(count for count in wanted if isinstance(count, int))


WORKLOAD = StormService()
