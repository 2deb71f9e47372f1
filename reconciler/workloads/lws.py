"""LeaderWorkerSet (leaderworkerset.x-k8s.io): the group of one leader and its workers restarts, other groups go on.

Leader and workers have different StatefulSets as controllers, and a new leader brings new ones: a group is known by its
labels. Source: LeaderWorkerSet controller (labels, names).
"""

from __future__ import annotations

from reconciler.core.memberships import chain_end, deleted, orphan
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, NoUnit, Unit, ref_of

_NAME = "leaderworkerset.sigs.k8s.io/name"
_GROUP = "leaderworkerset.sigs.k8s.io/group-index"


class LeaderWorkerSet:
    controllers = frozenset[str]()
    label = _NAME
    kinds = frozenset({"LeaderWorkerSet"})
    rebuilt = False

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        name, group = pod.metadata.labels[_NAME], pod.metadata.labels.get(_GROUP, "")
        if not group:
            own_id = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return NoUnit(own_id, "no-owner", f"it carries the label {_NAME} but no {_GROUP}: nobody's group")
        owner = index.named("LeaderWorkerSet", pod.metadata.namespace, name)
        if owner is None:
            return orphan(pod)
        pods = _group(index, pod.metadata.namespace, name, group)
        leader = f"{name}-{group}"
        return Unit(
            id=f"{pod.metadata.namespace}/{name}/{leader}",
            namespace=pod.metadata.namespace,
            instance=leader,
            level="Instance",
            workload=ref_of(owner),
            controller=ref_of(owner),
            pods=pods,
            chain=(owner,),
            size=_size(owner),
            blocked=chain_end((owner,), index) or _scaled_down(owner, group),
        )

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        group = recovery.spec.instance.rpartition("-")[2]
        return _group(index, recovery.metadata.namespace, recovery.spec.workload.name, group)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def _group(index: Index, namespace: str, name: str, group: str) -> tuple[Pod, ...]:
    pods = index.labelled(_NAME, namespace, name)
    return tuple(pod for pod in pods if pod.metadata.labels.get(_GROUP) == group)


def _scaled_down(owner: Owner, group: str) -> tuple[str, str] | None:
    replicas = owner.spec.get("replicas")
    if isinstance(replicas, int) and group.isdecimal() and int(group) >= replicas:
        message = f"LeaderWorkerSet {owner.metadata.name} has {replicas} replicas: group {group} is to go"
        return "owner-deleted", message
    return None


def _size(owner: Owner) -> int:
    template = owner.spec.get("leaderWorkerTemplate")
    size = template.get("size") if isinstance(template, dict) else None
    return size if isinstance(size, int) else 0


WORKLOAD = LeaderWorkerSet()
