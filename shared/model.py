"""The fault model: what an agent says about its node, and what the reconciler decides from.

Field names are those on the wire (docs/wire.md). Everything is frozen: a report is a statement about one instant.
Sources of the vocabulary: MindCluster's fault levels (faultCode.json), the driver's codes as `npu-smi` prints them.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import Any, Final, Literal

import msgspec

SCHEMA_VERSION = 1


@functools.total_ordering
class FaultLevel(Enum):
    """MindCluster's nine levels, names verbatim, in order of seriousness. What each does is the policy's table."""

    NOT_HANDLE = "NotHandleFault"
    SUB_HEALTH = "SubHealthFault"
    RESTART_REQUEST = "RestartRequest"
    RESTART_BUSINESS = "RestartBusiness"
    FREE_RESTART_NPU = "FreeRestartNPU"
    RESTART_NPU = "RestartNPU"
    PRE_SEPARATE_NPU = "PreSeparateNPU"
    SEPARATE_NPU = "SeparateNPU"
    MANUALLY_SEPARATE_NPU = "ManuallySeparateNPU"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, FaultLevel):
            return NotImplemented
        return _RANK[self] < _RANK[other]


_RANK = {level: rank for rank, level in enumerate(FaultLevel)}

Health = Literal["ok", "fault", "unknown"]
NODE: Final = "node"
"""`Fault.chip` of a fault that concerns the node itself."""


class Instant(msgspec.Struct, frozen=True):
    """One moment on both clocks, in seconds: durations are counted on `mono`, the world is told `wall` (Unix time)."""

    mono: float
    wall: float


def fault_id(code: str, chip: int | str) -> str:
    """`80E18402@3` for a chip, `NW-MONITOR-BLIND@node` for the node: one open fault per node has this id."""
    return f"{code}@{chip}"


class Chip(msgspec.Struct, frozen=True, omit_defaults=True):
    """One NPU die. Its identity is (phy, pci, die): the logic id shifts when a card dies and is shown only."""

    phy: int
    health: Health
    card: int | None = None
    chip: int | None = None
    logic: int | None = None
    pci: str | None = None
    die: str | None = None
    name: str | None = None
    codes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    """UIDs of the pods that hold this chip, as far as the node knows."""
    ip: str | None = None
    sdid: int | None = None


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open fault, classified and debounced; `since` is Unix time.

    `confirmed`: the driver's own list has shown it. An unconfirmed fault may taint, it never deletes a pod, so the
    field has no default.
    """

    id: str
    code: str
    chip: int | Literal["node"]
    level: FaultLevel
    since: float
    confirmed: bool
    part: str | None = None
    origin: Literal["probe", "drill"] = "probe"
    evidence: dict[str, Any] = {}


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subject that could not be looked at: neither healthy nor faulty. It keeps the faults it had."""

    chip: int | Literal["node"]
    probe: str
    since: float
    why: str


class ProbeStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one probe is doing: seconds since it last finished, how long it took, its last error.

    A report lists the probes in trouble; the agent's /v1/probes lists all.
    """

    name: str
    age_s: float
    took_s: float
    error: str | None = None


class FaultEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change: fault `id` was raised or cleared at Unix time `at`."""

    kind: Literal["raised", "cleared"]
    id: str
    at: float


class Drill(msgspec.Struct, frozen=True):
    """A drill that runs on the node. fault: the id of what it injects. until: Unix time at which it ends by itself."""

    name: str
    fault: str
    effect: Literal["shadow", "real"]
    until: float


class AgentInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    version: str
    url: str | None = None


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What kind of host it is; None = not known."""

    generation: str | None = None
    driver: str | None = None
    firmware: str | None = None
    super_pod_id: int | None = None
    passed_through: tuple[str, ...] = ()
    """PCI addresses of NPUs that belong to virtual machines; nobody here watches them."""


class NodeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole truth about one node, written to `report:<node>` at every change and every heartbeat.

    `session` is a UUID per agent process and `seq` counts within it; a new session replaces the old one for good.
    """

    v: int
    node: str
    session: str
    seq: int
    boot_id: str
    at: float
    agent: AgentInfo
    machine: Machine = Machine()
    chips: tuple[Chip, ...] = ()
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    probes: tuple[ProbeStatus, ...] = ()
    events: tuple[FaultEvent, ...] = ()
    drill: Drill | None = None


class ChangeNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the `events` stream: a hint that the node's key is new, and a history. Never planned from."""

    v: int
    node: str
    session: str
    seq: int
    events: tuple[FaultEvent, ...] = ()
