"""AIBrix StormService (orchestration.aibrix.ai/v1alpha1): the PodSet of a role restarts; prefill dies, decode goes on.

Roles with podGroupSize 1 have no PodSet, their pods hang on the RoleSet: with `pod-rescheduling: "on"` the faulted pod
restarts alone (rank 0 is not special), without it all size-1 pods of the RoleSet do.
Source: AIBrix PodSet and RoleSet controllers (labels, names, owner references).
"""

from __future__ import annotations

from reconciler.core.memberships import chain_end, deleted, of_controller, orphan
from reconciler.core.objects import Owner, Pod, Recovery
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
            size = _role_set_size(controller)
            # The label steers on the pod alone: it is a wish of the role's template, and the RoleSet has several roles.
            if pod.metadata.labels.get(POD_RESCHEDULING) == "on":
                level, instance, pods, size = "Pod", pod.metadata.name, (pod,), 1
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
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def _pod_set_size(controller: Owner) -> int:
    size = controller.spec.get("podGroupSize")
    return size if controller.kind == "PodSet" and isinstance(size, int) else 0


def _role_set_size(controller: Owner) -> int:
    """Pods that hang on the RoleSet itself: those of the roles without PodSets."""
    roles = controller.spec.get("roles")
    known = [role for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []
    wanted = [role.get("replicas", 1) for role in known if role.get("podGroupSize") in (None, 0, 1)]
    return sum(count for count in wanted if isinstance(count, int))


WORKLOAD = StormService()
