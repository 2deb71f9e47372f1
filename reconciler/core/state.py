"""The snapshot that `plan` decides on, and the world it is taken from.

`World` is the only mutable thing of the core: watches, reports and outcomes are folded into it (fold.py), and
`World.snapshot()` hands out a `State` that nobody changes. Times are the reconciler's monotonic seconds unless said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from reconciler.core.devices import is_npu_node
from reconciler.core.objects import ConfigMap, Node, Owner, Pod, RingsConfig
from reconciler.core.policy import Policy
from reconciler.core.ranktable import RankTable
from reconciler.core.recovery import Recovery
from reconciler.core.separated import Separated, by_node
from shared.model import NodeReport

if TYPE_CHECKING:
    from reconciler.ranktable.services import Service


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest accepted report of a node and when this process first heard it (monotonic seconds)."""

    report: NodeReport
    at: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """One isolation that some fault asks for: the taint's effect and value. Ordered by seriousness."""

    rank: int
    effect: str
    value: str


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The isolation record in the annotation `npuwarden.io/isolation`, JSON. Times are RFC 3339.

    session: id of this isolation, new each time the node is isolated afresh. by: warden | operator | drill |
    maintenance (a node that was cordoned before it went NotReady). hold_until: set while the faults are gone and the
    hold-down runs.
    released: ids of faults that were open when a person released the node (NodeDead and NW-NODE-REJECTS-PODS
    too); they isolate it no more until they have gone and come back.
    flaps: how often its fault came back within the hold-down. boot: the boot in which a fault of
    SeparateNPU or above was last seen. probation_until: new work is asked to stay away until then.
    """

    session: str
    since: str
    by: str = "warden"
    reasons: tuple[str, ...] = ()
    hold_until: str | None = None
    released: tuple[str, ...] = ()
    flaps: int = 0
    boot: str = ""
    probation_until: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that its node's kubelet has turned away. controller: its UID. at: monotonic seconds, None = just now."""

    pod: str
    controller: str
    why: str
    at: float | None = None


@dataclass(frozen=True, slots=True)
class SelfReplaced:
    """A pod that failed and that its controller replaces by itself. at: monotonic; None = not dated yet."""

    pod: Pod
    at: float | None = None
    told: bool = False


@dataclass
class Memory:
    """What this leader knows beside the cluster. Losing it costs time, never correctness.

    wanted: by node, when each isolation was last asked for; asking: the one that is asked for at present.
    first_heard: by (node, fault id), since when it is open. not_ready_since, cordoned_since: by node. tainted_since:
    by node, since when a taint of ours is seen standing that is as strong as what is asked for. ending_since: by pod
    UID, since when a target of an open recovery was seen terminating (the API server's clock is another one than
    ours). waiting_since: by (pod UID, bound), since when the pod of a pod-level restart is not Ready. deletes: times
    of the deletes of the last minute; deletes_counted: those of the leader before are among them; deleting: by action
    key, how many pods are being deleted now and not counted yet. isolating: by node, the record's time of an isolation
    that is being written, or was and had no answer. rejections: by node and pod UID, what its kubelet turned away.
    self_replaced: by UID, pods whose failure is only to be told.
    reports_since: since when reports can be read without a gap.
    """

    wanted: dict[str, dict[Wanted, float]] = field(default_factory=dict)
    asking: dict[str, Wanted] = field(default_factory=dict)
    first_heard: dict[tuple[str, str], float] = field(default_factory=dict)
    not_ready_since: dict[str, float] = field(default_factory=dict)
    cordoned_since: dict[str, float] = field(default_factory=dict)
    tainted_since: dict[str, float] = field(default_factory=dict)
    ending_since: dict[str, float] = field(default_factory=dict)
    waiting_since: dict[tuple[str, bool], float] = field(default_factory=dict)
    deletes: list[float] = field(default_factory=list)
    deletes_counted: bool = False
    deleting: dict[str, int] = field(default_factory=dict)
    isolating: dict[str, str] = field(default_factory=dict)
    rejections: dict[str, dict[str, Rejection]] = field(default_factory=dict)
    self_replaced: dict[str, SelfReplaced] = field(default_factory=dict)
    reports_since: float | None = None


@dataclass(frozen=True)
class State:
    """Everything `plan` may look at.

    nodes by name; pods, groups and recoveries by `namespace/name`; owners by UID (every controller kind we watch).
    rank_tables: the ConfigMaps `rings-config-<job>`, by `namespace/name`.
    published: the ConfigMaps `npuwarden-ranktable-<jobID>`, by `namespace/name`. clusterd: its Service stands.
    kinds: the owner kinds this cluster serves; a pod owned by a kind that is absent here has an unknown owner.
    reports_ok: reports can be read at all. When False, silence says nothing about any node.
    watch_ok: no watch is older than 60 s. When False, nothing is deleted.
    leader_since: in the first 60 s after it nobody is silent.
    paused: why a person has paused the warden; paused_until: wall time at which that ends by itself.
    npu_scheduler: MindCluster's Volcano plugin reschedules in this cluster.
    ledger: the ConfigMap in which ascend-operator looks up the retries of its jobs, None while there is none.
    separated: the ConfigMap of dies that are separated for good, None while there is none.
    network_codes: codes of the parameter plane: they keep work away, they never restart pods.
    """

    policy: Policy
    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    owners: Mapping[str, Owner]
    groups: Mapping[str, Owner]
    recoveries: Mapping[str, Recovery]
    heard: Mapping[str, Heard]
    memory: Memory
    leader_since: float
    holder: str = ""
    reports_ok: bool = True
    watch_ok: bool = True
    paused: str | None = None
    paused_until: float | None = None
    npu_scheduler: bool = False
    ledger: ConfigMap | None = None
    separated: ConfigMap | None = None
    rank_tables: Mapping[str, RankTable] = field(default_factory=dict)
    published: Mapping[str, RingsConfig] = field(default_factory=dict)
    clusterd: bool = False
    kinds: frozenset[str] = frozenset()
    network_codes: frozenset[str] = frozenset()

    @cached_property
    def separations(self) -> Mapping[str, tuple[Separated, ...]]:
        """The dies that are separated for good, by the node that shows them."""
        data = self.separated.data if self.separated is not None else None
        return by_node(data, {name: heard.report for name, heard in self.heard.items()}) if data else {}

    @cached_property
    def services(self) -> Mapping[str, Service]:
        """The services with global rank tables, by `namespace/name` of the ConfigMap that each is published in."""
        from reconciler.ranktable.services import services_of  # it reads jobs as their plugin does, which needs State

        return services_of(self)

    @cached_property
    def fleet(self) -> frozenset[str]:
        """Nodes with NPUs: shares of the fleet are shares of these, however many others the cluster has."""
        found = frozenset(name for name, node in self.nodes.items() if name in self.heard or is_npu_node(node))
        return found or frozenset(self.nodes)

    @cached_property
    def not_ready_share(self) -> float:
        """The larger of two shares that are not Ready: of all nodes, and of those with NPUs. One node is no share."""
        missing = self.memory.not_ready_since.keys()
        counted = [(len(missing & names), len(names)) for names in (self.nodes.keys(), self.fleet)]
        return max((lost / of for lost, of in counted if lost > 1), default=0.0)


@dataclass
class World:
    """The mutable mirror of the cluster and of the reports. Owned by one task (or by one test)."""

    policy: Policy = field(default_factory=Policy)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    owners: dict[str, Owner] = field(default_factory=dict)
    groups: dict[str, Owner] = field(default_factory=dict)
    recoveries: dict[str, Recovery] = field(default_factory=dict)
    heard: dict[str, Heard] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    leader_since: float = 0.0
    holder: str = ""
    reports_ok: bool = True
    watch_ok: bool = True
    paused: str | None = None
    paused_until: float | None = None
    npu_scheduler: bool = False
    ledger: ConfigMap | None = None
    separated: ConfigMap | None = None
    rank_tables: dict[str, RankTable] = field(default_factory=dict)
    published: dict[str, RingsConfig] = field(default_factory=dict)
    clusterd: bool = False
    kinds: set[str] = field(default_factory=set)
    network_codes: frozenset[str] = frozenset()
    rejected_reports: dict[str, int] = field(default_factory=dict)
    retired_sessions: dict[str, list[str]] = field(default_factory=dict)
    buried: dict[tuple[str, str], int] = field(default_factory=dict)
    """resourceVersion at which a watch has shown an object gone, by (kind, key): the newest of them."""

    def snapshot(self) -> State:
        return State(
            policy=self.policy,
            nodes=MappingProxyType(dict(self.nodes)),
            pods=MappingProxyType(dict(self.pods)),
            owners=MappingProxyType(dict(self.owners)),
            groups=MappingProxyType(dict(self.groups)),
            recoveries=MappingProxyType(dict(self.recoveries)),
            heard=MappingProxyType(dict(self.heard)),
            memory=self.memory,
            leader_since=self.leader_since,
            holder=self.holder,
            reports_ok=self.reports_ok,
            watch_ok=self.watch_ok,
            paused=self.paused,
            paused_until=self.paused_until,
            npu_scheduler=self.npu_scheduler,
            ledger=self.ledger,
            separated=self.separated,
            rank_tables=MappingProxyType(dict(self.rank_tables)),
            published=MappingProxyType(dict(self.published)),
            clusterd=self.clusterd,
            kinds=frozenset(self.kinds),
            network_codes=self.network_codes,
        )
