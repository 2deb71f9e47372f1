"""The fields of Kubernetes objects that decisions use, decoded straight from the API's JSON by msgspec.

Field names follow the API (camelCase on the wire). Unknown fields are skipped, so an object of 8 KiB costs what we use.
Sources: Kubernetes API v1.37, volcano PodGroup v1beta1, deploy/crd.yaml for Recovery.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.core.quantities import npus


class _K8s(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base: camelCase on the wire, immutable in memory."""


class OwnerReference(_K8s, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Meta(_K8s, frozen=True):
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


class Condition(_K8s, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Taint(_K8s, frozen=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(_K8s, frozen=True):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        return self.taints or ()


class NodeStatus(_K8s, frozen=True):
    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Node(_K8s, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.status.conditions if c.type == kind), None)

    @property
    def ready(self) -> bool:
        cond = self.condition("Ready")
        return cond is not None and cond.status == "True"

    def taint(self, key: str) -> Taint | None:
        return next((t for t in self.spec.all_taints if t.key == key), None)


class Resources(_K8s, frozen=True):
    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class Container(_K8s, frozen=True):
    name: str
    resources: Resources = Resources()


class Toleration(_K8s, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(_K8s, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(_K8s, frozen=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(_K8s, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(_K8s, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(_K8s, frozen=True):
    node_affinity: NodeAffinity | None = None


class PodSpec(_K8s, frozen=True):
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


class Terminated(_K8s, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Waiting(_K8s, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(_K8s, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_K8s, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(_K8s, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class Pod(_K8s, frozen=True):
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


class PodGroupStatus(_K8s, frozen=True):
    phase: str = ""


class Owner(_K8s, frozen=True):
    """Any controller above a pod (AscendJob, PodSet, RoleSet, StormService, PodGroup, ReplicaSet, ...).

    `spec` and `status` stay as the API sent them: each workload plugin knows its own kind.
    """

    metadata: Meta
    kind: str = ""
    api_version: str = ""
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ConfigMap(_K8s, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class RingsData(_K8s, frozen=True):
    hccl_json: str = msgspec.field(name="hccl.json", default="")
    global_ranktable: str = msgspec.field(name="global_ranktable.json", default="")


class RingsConfig(_K8s, frozen=True):
    """The ConfigMap `rings-config-<job>` into which ascend-operator writes the job's rank table; or the warden's own
    `npuwarden-ranktable-<jobID>` with that of the whole service."""

    metadata: Meta
    data: RingsData | None = None


class WorkloadRef(_K8s, frozen=True):
    """The topmost controller of a unit: what a user would name."""

    api_version: str
    kind: str
    name: str
    uid: str


class Target(_K8s, frozen=True):
    """A pod that this recovery deletes: exactly this incarnation (uid), where it ran."""

    pod: str
    uid: str
    node: str | None = None
    version: str | None = None
    chips: tuple[int, ...] | None = None
    """Physical ids of the chips it held; None = not known, so any chip of its node may have been one."""


class Cause(_K8s, frozen=True):
    kind: str
    """Hardware | Node | Software | SubHealth"""
    faults: tuple[str, ...] = ()
    """`80E18402@3 on node-a`, for people."""
    nodes: tuple[str, ...] = ()
    """Nodes whose taint must stand before a pod is deleted."""


class Evidence(_K8s, frozen=True):
    """What the driver said of one fault when its unit was about to be deleted: a reset or a repair ends it.

    chip: physical id, None = the node itself. codes: everything the driver listed of that chip then. detail: the
    finding's own figures, JSON, shortened.
    """

    node: str
    code: str
    level: str
    since: str | None = None
    chip: int | None = None
    pci: str | None = None
    die: str | None = None
    codes: tuple[str, ...] = ()
    part: str | None = None
    confirmed: bool = True
    origin: str = "probe"
    detail: str = ""


class History(_K8s, frozen=True):
    """What the unit had had when this recovery was opened: it stays when those recoveries are removed.

    of: what `charged` counts, the unit or the template of pods whose names are drawn. recoveries: of the unit, under
    whatever owner. charged: retries used under the present owner.
    """

    of: str = ""
    recoveries: int = 0
    charged: int = 0


class RecoverySpec(_K8s, frozen=True):
    workload: WorkloadRef
    unit: str
    """`namespace/workload[/instance]`: what restarts together."""
    level: str
    """Job | Instance | Pod"""
    method: str
    """force | grace"""
    cause: Cause
    instance: str = ""
    controller: WorkloadRef | None = None
    """Who re-creates the pods (PodSet, RoleSet, AscendJob): must stand at the delete, and owns the replacements."""
    size: int = 0
    """Pods the unit must have to be whole again."""
    escalated_from: str = ""
    """Name of the pod-level recovery that this one follows: its cause stands although no chip shows it."""
    targets: tuple[Target, ...] = ()
    origin: str = "probe"
    voluntary: bool = False
    """The unit still served when this was opened: it takes a slot of the restart budget."""
    history: History = History()
    evidence: tuple[Evidence, ...] = ()


class Times(_K8s, frozen=True):
    """RFC 3339 times of what has happened so far."""

    detected: str | None = None
    tainted: str | None = None
    claimed: str | None = None
    deleted: str | None = None
    gone: str | None = None
    recreated: str | None = None
    bound: str | None = None
    ready: str | None = None
    finished: str | None = None


class RecoveryStatus(_K8s, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    holder: str = ""
    charged: int = 0
    attempts: int = 0
    duration: str = ""
    """From the fault to the end, such as `2.3s` or `14m05s`; empty while it is open."""
    times: Times = Times()
    replacements: tuple[Target, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Recovery(_K8s, frozen=True):
    """One episode of one unit: the durable journal (`kubectl get recoveries`)."""

    metadata: Meta
    spec: RecoverySpec
    status: RecoveryStatus = RecoveryStatus()

    @property
    def open(self) -> bool:
        return self.status.phase not in FINISHED_PHASES


OPEN_PHASES = frozenset({"Pending", "Isolating", "Deleting", "Recreating", "WaitingForCapacity", "Held"})
FINISHED_PHASES = frozenset({"Recovered", "Escalated", "Exhausted", "OwnerTerminal", "Aborted", "Superseded"})
