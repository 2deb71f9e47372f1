"""MindCluster infer-operator (mindcluster.huawei.com/v1): one workload of an InstanceSet is one instance.

Its pods hang on an ordinary StatefulSet or Deployment; the operator's labels tell it from one. Where the operator runs,
it restarts instances itself: two hands on one unit are never right, so the warden stands back.
Source: MindCluster infer-operator (labels, owner references).
"""

from __future__ import annotations

from reconciler.core.memberships import chain_end, deleted, of_controller, orphan
from reconciler.core.objects import Owner, Pod, Recovery
from reconciler.core.units import Index, NoUnit, Unit, ref_of

_OPERATOR = ("mindx-dl", "infer-operator")


class InferOperator:
    controllers = frozenset[str]()
    label = "infer.huawei.com/inferservice-name"
    kinds = frozenset({"InferServiceSet", "InferService", "InstanceSet"})

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        chain = index.chain(pod.metadata.controller)
        if not chain:
            return orphan(pod)
        top = chain[-1]
        # A Deployment's pods hang on its ReplicaSet: the instance is the workload above.
        workload = next((o for o in chain if o.kind in ("StatefulSet", "Deployment")), chain[0])
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
            blocked=chain_end(chain) or _foreign(index),
        )

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        return deleted(owner)


def _foreign(index: Index) -> tuple[str, str] | None:
    namespace, name = _OPERATOR
    operator = index.named("Deployment", namespace, name)
    if operator is not None and operator.status.get("availableReplicas", 0) > 0:
        return "foreign-actor", "the infer-operator runs: it restarts its instances itself, the warden only taints"
    return None


WORKLOAD = InferOperator()
