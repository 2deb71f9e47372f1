"""What the reconciler's HTTP API answers with. The OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reconciler.core.actions import Hold
from reconciler.core.chain import Link
from reconciler.core.kept_logs import ContainerLog
from reconciler.core.recovery import RecoverySpec, RecoveryStatus
from reconciler.inbox import BadMessage
from shared.model import AgentInfo, Fault, Unknown

NodeVerdict = Literal["ok", "fault", "unknown", "dead", "released"]


class Alive(msgspec.Struct, frozen=True):
    ok: bool = True


class Ready(msgspec.Struct, frozen=True):
    """leader: identity of the replica that leads, empty while nobody does."""

    ok: bool
    leader: str


class Warden(msgspec.Struct, frozen=True):
    """What keeps the warden itself from acting, null or false where nothing does.

    paused: the reason a person gave. policy_error: why the newest policy.toml is refused; the one before is in force.
    reports_ok: the agents' reports can be read from Redis. watch_ok: what is known of the cluster is complete and not
    older than a minute.
    """

    leader: str
    paused: str | None
    observe_only: bool
    policy_error: str | None
    reports_ok: bool
    watch_ok: bool


class StandingTaint(msgspec.Struct, frozen=True):
    value: str
    effect: str


class OfferedNpus(msgspec.Struct, frozen=True):
    """NPUs for the scheduler to give out, and how many the node should have: its kubelet's count, and never fewer than
    it has offered before. The difference has been withdrawn by its device plugin."""

    offered: int
    present: int


class NodeAnswer(msgspec.Struct, frozen=True):
    """One node: verdict, isolation, age of its report (seconds), all open faults.

    chips: how many its agent sees. npus: what its device plugin offers, null where there is none. released: ids of the
    open faults in spite of which a person has given it back.
    """

    name: str
    verdict: NodeVerdict
    ready: bool | None
    taint: StandingTaint | None
    reasons: list[str]
    report_age_s: float | None
    agent: AgentInfo | None
    chips: int | None
    npus: OfferedNpus | None
    faults: tuple[Fault, ...]
    released: list[str]
    unknown: tuple[Unknown, ...]


class NodeDetails(NodeAnswer, frozen=True):
    """bad_messages: what came from this node and was not used."""

    bad_messages: list[BadMessage]


class OpenFault(Fault, frozen=True, omit_defaults=True, kw_only=True):
    """A fault and its node."""

    node: str


class RecoveryAnswer(msgspec.Struct, frozen=True):
    """A Recovery as the API server has it, without the bookkeeping of its metadata."""

    namespace: str
    name: str
    created: str | None
    spec: RecoverySpec
    status: RecoveryStatus


class RecoveryDetails(RecoveryAnswer, frozen=True):
    """logs: the ends of the containers' logs before the delete. logs_note: why there are none."""

    logs: list[ContainerLog]
    logs_note: str | None


class PlanAnswer(msgspec.Struct, frozen=True):
    """What would be done now, and everything that is refused. An action has its kind, its key and its own fields."""

    actions: list[dict[str, Any]]
    holds: tuple[Hold, ...]
    wake_in_s: float | None


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """The chain of evidence about a node, a pod or a workload, and what it is made from.

    verdicts: refusals that concern it. unit: what a pod restarts with. units, pods: those of a workload.
    """

    subject: str
    chain: list[Link]
    verdicts: list[Hold]
    recoveries: list[RecoveryAnswer]
    node: NodeAnswer | None = None
    unit: str | None = None
    units: list[str] = []
    pods: list[str] = []
