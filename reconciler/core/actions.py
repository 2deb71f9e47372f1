"""The closed set of things the reconciler can do, as data, and the plan that lists them.

`key` names the object an action works on: the executor runs one action per key at a time, in the plan's order.
Refusals are outputs too (`Hold`): every unit and node that is left alone says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.core.objects import ConfigMap, Node, Owner
from reconciler.core.recovery import Recovery, RecoverySpec, RecoveryStatus, WorkloadRef
from reconciler.core.state import Record, Wanted


@dataclass(frozen=True, slots=True)
class Isolate:
    """Write our taint and its record to a node, read it back. `node` is the object the decision was made on."""

    node: Node
    want: Wanted
    record: Record

    @property
    def key(self) -> str:
        return f"Node/{self.node.metadata.name}"


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """Rewrite the isolation record alone (reasons, hold-down), the taint stays as it is. None = take it off."""

    node: Node
    record: Record | None

    @property
    def key(self) -> str:
        return f"Node/{self.node.metadata.name}"


@dataclass(frozen=True, slots=True)
class Release:
    """Take our taint off a node. `record` is what stays of the isolation: None, or what a person's release forgives."""

    node: Node
    why: str
    record: Record | None = None
    by_hand: bool = False

    @property
    def key(self) -> str:
        return f"Node/{self.node.metadata.name}"


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Write the node condition `npuwarden.io/NPUHealthy`."""

    node: Node
    status: str
    reason: str
    message: str

    @property
    def key(self) -> str:
        return f"NodeCondition/{self.node.metadata.name}"


@dataclass(frozen=True, slots=True)
class KeepOffered:
    """Write down the most NPUs that a node has offered, by resource: what its device plugin withdraws shows by it."""

    node: Node
    most: Mapping[str, int]

    @property
    def key(self) -> str:
        return f"NodeOffered/{self.node.metadata.name}"


@dataclass(frozen=True, slots=True)
class OpenRecovery:
    """Create the Recovery (phase Isolating): the episode exists before anything is deleted for it."""

    namespace: str
    name: str
    spec: RecoverySpec
    status: RecoveryStatus

    @property
    def key(self) -> str:
        return f"Recovery/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Claim:
    """Write targets and holder in one update, by resourceVersion: only one leader's claim can win."""

    recovery: Recovery
    spec: RecoverySpec
    status: RecoveryStatus

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class Progress:
    """Write a new status of a Recovery, by resourceVersion."""

    recovery: Recovery
    status: RecoveryStatus

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class Victim:
    """One pod to delete: this incarnation, with this grace (None = the pod's own)."""

    namespace: str
    name: str
    uid: str
    grace_s: int | None


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods of one claimed Recovery, after fresh GETs of recovery, owner, nodes and pods have agreed."""

    recovery: Recovery
    victims: tuple[Victim, ...]
    nodes: tuple[str, ...]
    """Nodes that must carry our taint now; one that is gone needs none."""
    owners: tuple[WorkloadRef, ...]
    """The workload and the controller that will re-create the pods: both must still stand."""

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The annotation `huawei.com/pod-status` of one pod, this incarnation: the value to set, or None = take it off."""

    pod: str
    uid: str
    value: str | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """Mark pods of one claimed Recovery for the operator that restarts them, after the same last look as a delete.

    nodes, owners: as in DeletePods. A mark is set only while the operator runs.
    """

    recovery: Recovery
    marks: tuple[Mark, ...]
    nodes: tuple[str, ...]
    owners: tuple[WorkloadRef, ...]

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class WriteLedger:
    """Set keys of the retry ledger's ConfigMap, in this resourceVersion only; version None: there is none yet."""

    version: str | None
    data: Mapping[str, str]

    @property
    def key(self) -> str:
        return "RetryLedger"


@dataclass(frozen=True, slots=True)
class ReturnCharge:
    """Hardware has turned out to be the cause of a charged restart: its cause is rewritten, the retry given back."""

    recovery: Recovery
    spec: RecoverySpec
    status: RecoveryStatus

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class Tell:
    """An Event on a workload about a pod that is only to be told of. pod: its UID."""

    pod: str
    namespace: str
    workload: WorkloadRef
    reason: str
    message: str

    @property
    def key(self) -> str:
        return f"Told/{self.pod}"


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove one finished Recovery, in this version only: the journal keeps the newest of each unit."""

    recovery: Recovery

    @property
    def key(self) -> str:
        return f"Recovery/{self.recovery.metadata.key}"


@dataclass(frozen=True, slots=True)
class KeepSeparations:
    """Set entries (JSON by die id) in the list of separated dies, take others off. config: None = there is none yet."""

    config: ConfigMap | None
    entries: Mapping[str, str]
    over: tuple[str, ...]

    @property
    def key(self) -> str:
        return "SeparatedDies"


@dataclass(frozen=True, slots=True)
class PublishTable:
    """Write a service's global rank table, in this resourceVersion only; version None: there is none yet."""

    namespace: str
    job_id: str
    version: str | None
    text: str
    annotations: Mapping[str, str]
    owners: tuple[Owner, ...]
    """The jobs with whose end it is removed."""

    @property
    def key(self) -> str:
        return f"RankTable/{self.namespace}/{self.job_id}"


BOOKKEEPING = (KeepRecord, KeepOffered, SetCondition, WriteLedger, Tell, Prune, KeepSeparations)
"""Actions that touch neither work nor where it may go."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A refusal: `subject` (unit or node) is left as it is, `reason` is one of the words of docs/reasons.md."""

    subject: str
    reason: str
    message: str


Action = (
    Isolate
    | KeepRecord
    | KeepOffered
    | Release
    | SetCondition
    | OpenRecovery
    | Claim
    | Progress
    | DeletePods
    | HandOver
    | WriteLedger
    | ReturnCharge
    | Tell
    | KeepSeparations
    | PublishTable
    | Prune
)


@dataclass(frozen=True, slots=True)
class Incident:
    """What many nodes have in common (incidents.py). since: RFC 3339. members: nodes. held: what is refused for it.

    id: of the kind and the cause, so that one that comes back has the same with another `since`.
    """

    id: str
    kind: str
    """domain | code | agent | not-ready | breaker"""
    cause: str
    since: str
    why: str
    members: tuple[str, ...]
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrakesUsed:
    """How far the brakes are used once this plan is carried out.

    isolated: nodes newly isolated within the breaker's window; breaker_limit: how many may be. breaker_open: no
    further one is isolated. restarting: units that still served and restart now. restart_slots: how many may; None =
    no unit has asked for a slot.
    """

    isolated: int
    breaker_limit: int
    breaker_open: bool
    restarting: int
    restart_slots: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what is refused, and when to look again even if nothing happens (monotonic seconds)."""

    actions: tuple[Action, ...]
    holds: tuple[Hold, ...]
    wake_at: float | None
    brakes: BrakesUsed | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    """Global rank tables that are right and published, by jobID."""
    incidents: tuple[Incident, ...] = ()
