"""The Recovery resource: the durable journal of one unit's restart. Source: deploy/crd.yaml."""

from __future__ import annotations

from reconciler.core.objects import Condition, K8s, Meta


class WorkloadRef(K8s, frozen=True):
    """The topmost controller of a unit: what a user would name."""

    api_version: str
    kind: str
    name: str
    uid: str


class Target(K8s, frozen=True):
    """A pod that this recovery deletes: exactly this incarnation (uid), where it ran."""

    pod: str
    uid: str
    node: str | None = None
    version: str | None = None
    chips: tuple[int, ...] | None = None
    """Physical ids of the chips it held; None = not known, so any chip of its node may have been one."""


class Cause(K8s, frozen=True):
    kind: str
    """Hardware | Node | Software | SubHealth"""
    faults: tuple[str, ...] = ()
    """`80E18402@3 on node-a`, for people."""
    nodes: tuple[str, ...] = ()
    """Nodes whose taint must stand before a pod is deleted."""


class Evidence(K8s, frozen=True):
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


class History(K8s, frozen=True):
    """What the unit had had when this recovery was opened: it stays when those recoveries are removed.

    of: what `charged` counts, the unit or the template of pods whose names are drawn. recoveries: of the unit, under
    whatever owner. charged: retries used under the present owner.
    """

    of: str = ""
    recoveries: int = 0
    charged: int = 0


class RecoverySpec(K8s, frozen=True):
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


class Times(K8s, frozen=True):
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


class RecoveryStatus(K8s, frozen=True):
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


class Recovery(K8s, frozen=True):
    """One episode of one unit: the durable journal (`kubectl get recoveries`)."""

    metadata: Meta
    spec: RecoverySpec
    status: RecoveryStatus = RecoveryStatus()

    @property
    def open(self) -> bool:
        return self.status.phase not in FINISHED_PHASES


OPEN_PHASES = frozenset({"Pending", "Isolating", "Deleting", "Recreating", "WaitingForCapacity", "Held"})
FINISHED_PHASES = frozenset({"Recovered", "Escalated", "Exhausted", "OwnerTerminal", "Aborted", "Superseded"})
