"""MindCluster infer-operator (mindcluster.huawei.com/v1): one workload of an InstanceSet is one instance.

Its pods hang on an ordinary StatefulSet or Deployment; the operator's labels tell it from one. Where the operator runs
it restarts an instance whose pod is marked: it deletes the workload and makes it anew under the same name. So an
instance is known by its workload's name, never by its UID. Where it does not run, the warden deletes the pods.
Source: MindCluster infer-operator (labels, owner references, annotation `huawei.com/pod-status`).
"""

from __future__ import annotations

from typing import Any

from reconciler.core.memberships import chain_end, deleted, orphan
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, NoUnit, Unit, ref_of

OPERATOR = ("mindx-dl", "infer-operator")
"""Namespace and name of the operator's Deployment."""
_WORKLOADS = ("StatefulSet", "Deployment")


class InferOperator:
    controllers = frozenset[str]()
    label = "infer.huawei.com/inferservice-name"
    kinds = frozenset({"InferServiceSet", "InferService", "InstanceSet"})
    rebuilt = True

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        chain = index.chain(pod.metadata.controller)
        if not chain:
            return orphan(pod)
        top = chain[-1]
        if top.kind not in self.kinds:
            own_id = f"{pod.metadata.namespace}/{pod.metadata.name}"
            message = f"no InstanceSet stands above its {chain[0].kind} {chain[0].metadata.name}"
            return NoUnit(own_id, "owner-deleted", f"{message}: the infer-operator would not bring it back")
        # A Deployment's pods hang on its ReplicaSet: the instance is the workload above.
        workload = next((o for o in chain if o.kind in _WORKLOADS), chain[0])
        pods = tuple(index.by_controller.get(chain[0].metadata.uid, ()))
        return Unit(
            id=f"{pod.metadata.namespace}/{top.metadata.name}/{workload.metadata.name}",
            namespace=pod.metadata.namespace,
            instance=workload.metadata.name,
            level="Instance",
            workload=ref_of(top),
            controller=ref_of(chain[0]),
            pods=pods,
            chain=chain,
            size=0,
            blocked=chain_end(chain, index),
            operator=operator_runs(index),
        )

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        namespace, name = recovery.metadata.namespace, recovery.spec.instance
        owners = [owner for kind in _WORKLOADS if (owner := index.named(kind, namespace, name)) is not None]
        owners += [below for owner in owners for below in index.owned(owner.metadata.uid)]
        return tuple(pod for owner in owners for pod in index.by_controller.get(owner.metadata.uid, ()))

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def workload_stands(pod: Pod, index: Index) -> bool:
    """Whether the workload above a pod is there to stay: the operator deletes it first when it restarts an instance."""
    above = (owner for owner in index.chain(pod.metadata.controller) if owner.kind in _WORKLOADS)
    return any(owner.metadata.deletion_timestamp is None for owner in above)


def operator_runs(index: Index) -> bool:
    """Whether the operator's Deployment has an available replica: then it acts, and the warden must not."""
    operator = index.named("Deployment", *OPERATOR)
    return operator is not None and available(operator.status)


def available(status: dict[str, Any]) -> bool:
    """Whether this status of the operator's Deployment says that it runs."""
    return (status.get("availableReplicas") or 0) > 0


WORKLOAD = InferOperator()
