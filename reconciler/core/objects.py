"""The fields of Kubernetes objects that decisions use, decoded straight from the API's JSON by msgspec.

Field names follow the API (camelCase on the wire). Unknown fields are skipped, so an object of 8 KiB costs what we use.
Sources: Kubernetes API v1.37, volcano PodGroup v1beta1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.core.quantities import npus
from shared.names import OPT_OUT_LABEL


class K8s(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base: camelCase on the wire, immutable in memory."""


class OwnerReference(K8s, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Meta(K8s, frozen=True):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        # Asked of every pod in every round: a generator would cost three times as much.
        for ref in self.owner_references:
            if ref.controller:
                return ref
        return None


class Condition(K8s, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Taint(K8s, frozen=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(K8s, frozen=True):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        return self.taints or ()


class NodeStatus(K8s, frozen=True):
    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Node(K8s, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.status.conditions if c.type == kind), None)

    @property
    def ready(self) -> bool:
        cond = self.condition("Ready")
        return cond is not None and cond.status == "True"

    @property
    def opted_out(self) -> bool:
        """The operator's label says to leave it alone."""
        return self.metadata.labels.get(OPT_OUT_LABEL) == "true"

    def taint(self, key: str) -> Taint | None:
        return next((t for t in self.spec.all_taints if t.key == key), None)


class Resources(K8s, frozen=True):
    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class Container(K8s, frozen=True):
    name: str
    resources: Resources = Resources()


class Toleration(K8s, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(K8s, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(K8s, frozen=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(K8s, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(K8s, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(K8s, frozen=True):
    node_affinity: NodeAffinity | None = None


class PodSpec(K8s, frozen=True):
    node_name: str | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = 30
    containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None

    @property
    def required_node_terms(self) -> tuple[NodeSelectorTerm, ...]:
        """The node must fit one of these; empty = any node fits."""
        node = self.affinity.node_affinity if self.affinity else None
        wanted = node.required_during_scheduling_ignored_during_execution if node else None
        return (wanted.node_selector_terms or ()) if wanted else ()


class Terminated(K8s, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Waiting(K8s, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(K8s, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(K8s, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(K8s, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class Pod(K8s, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.status.conditions or () if c.type == kind), None)

    @property
    def node(self) -> str | None:
        return self.spec.node_name

    @property
    def ready(self) -> bool:
        cond = self.condition("Ready")
        return self.status.phase == "Running" and cond is not None and cond.status == "True"

    @property
    def failed(self) -> bool:
        return self.status.phase == "Failed"

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def npus(self) -> int:
        """NPUs asked for, over all containers and all `huawei.com/` chip resources (Ascend910, npu, ...)."""
        total = 0
        for container in self.spec.containers:
            wanted = container.resources.requests or container.resources.limits or {}
            total += sum(npus(wanted).values())
        return total


class PodGroupStatus(K8s, frozen=True):
    phase: str = ""


class Owner(K8s, frozen=True):
    """Any controller above a pod (AscendJob, PodSet, RoleSet, StormService, PodGroup, ReplicaSet, ...).

    `spec` and `status` stay as the API sent them: each workload plugin knows its own kind.
    """

    metadata: Meta
    kind: str = ""
    api_version: str = ""
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ConfigMap(K8s, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class RingsData(K8s, frozen=True):
    hccl_json: str = msgspec.field(name="hccl.json", default="")
    global_ranktable: str = msgspec.field(name="global_ranktable.json", default="")


class RingsConfig(K8s, frozen=True):
    """The ConfigMap `rings-config-<job>` into which ascend-operator writes the job's rank table; or the warden's own
    `npuwarden-ranktable-<jobID>` with that of the whole service."""

    metadata: Meta
    data: RingsData | None = None
