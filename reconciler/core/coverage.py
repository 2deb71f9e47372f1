"""Which workloads would be saved, and what the others lack: rows of `/v1/coverage`, from a snapshot alone.

A gap is not only what keeps a restart from happening, but also what would spoil it: no room elsewhere, a toleration of
our taint, a controller that gives up soon. docs/coverage.md says what to do about each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.core.capacity import Capacity, tolerates
from reconciler.core.judge import few
from reconciler.core.objects import Pod, Taint
from reconciler.core.state import State
from reconciler.core.units import FAULT_SCHEDULING, Index, NoUnit, Unit, label_values
from reconciler.core.whatif import KINDS, LEVEL, Answer, FaultKind, WhatIf, settled
from reconciler.workloads import unit_of
from shared.model import Instant
from shared.names import TAINT_KEY

BY_CHOICE = frozenset({"label-off"})
"""Somebody has decided so: not handled, and no gap."""

LAST_ROUND = 1
"""A controller that allows so many more restarts is about to give up."""

_OUR_TAINT = Taint(TAINT_KEY, "NoSchedule", LEVEL.value)
_NO_RETRIES = "fault-retry-times is missing, contradicting or no number above 0"
_ENDS_WITH_A_CRASH = frozenset({"AscendJob"})


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that is missing. faults: the kinds it concerns. where: its pods or nodes, empty = all of them."""

    reason: str
    message: str
    faults: tuple[FaultKind, ...]
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Covered:
    """Units of one workload that fare alike. units: ids, the first ones. chip None: its pods use no NPU."""

    namespace: str
    workload: str
    kind: str
    level: str
    units: tuple[str, ...]
    unit_count: int
    pods: int
    npus: int
    chip: Answer | None
    node: Answer | None
    software: Answer | None
    gaps: tuple[Gap, ...]


def coverage(state: State, now: Instant, *, namespace: str | None = None) -> list[Covered]:
    """Every workload that has NPU pods or carries `fault-scheduling`, in order; of one namespace, or of all.

    Pods that have ended or are being deleted do not count.
    """
    found = _units(settled(state), namespace)
    # Only these are asked about: most pods of a cluster neither use NPUs nor want to be restarted.
    kept = {pod.metadata.key: pod for _, pods in found for pod in pods}
    whatif = WhatIf(dataclasses.replace(state, pods=kept, paused=None), now)
    capacity = Capacity(state)
    rows = [
        _without_unit(unit, pods) if isinstance(unit, NoUnit) else _with_unit(unit, pods, whatif, capacity)
        for unit, pods in found
    ]
    return sorted(_merged(rows), key=lambda row: (row.namespace, row.workload, row.units))


def _units(state: State, namespace: str | None) -> list[tuple[Unit | NoUnit, list[Pod]]]:
    """The units that ask for NPUs or carry the label, with their pods; what has no unit where it asks for NPUs."""
    index = Index(state)
    found: dict[str, tuple[Unit | NoUnit, list[Pod]]] = {}
    for pod in state.pods.values():
        if namespace is not None and pod.metadata.namespace != namespace:
            continue
        unit = unit_of(pod, index)
        if isinstance(unit, Unit):
            found.setdefault(unit.key, (unit, []))[1].append(pod)
        elif pod.npus:
            found.setdefault(f"{unit.id} {unit.reason}", (unit, []))[1].append(pod)
    return [(unit, pods) for unit, pods in found.values() if _concerned(unit, pods, index)]


def _concerned(unit: Unit | NoUnit, pods: Sequence[Pod], index: Index) -> bool:
    if isinstance(unit, NoUnit) or any(pod.npus for pod in pods):
        return True
    return bool(label_values(unit, index, FAULT_SCHEDULING))


def _without_unit(unit: NoUnit, pods: Sequence[Pod]) -> Covered:
    ref = pods[0].metadata.controller
    no = Answer(False, reason=unit.reason, message=unit.message)
    return Covered(
        namespace=pods[0].metadata.namespace,
        workload=ref.name if ref else pods[0].metadata.name,
        kind=ref.kind if ref else "Pod",
        level="",
        units=(unit.id,),
        unit_count=1,
        pods=len(pods),
        npus=sum(pod.npus for pod in pods),
        chip=no,
        node=no,
        software=no,
        gaps=(Gap(unit.reason, unit.message, KINDS),),
    )


def _with_unit(unit: Unit, pods: Sequence[Pod], whatif: WhatIf, capacity: Capacity) -> Covered:
    answers = {kind: whatif.ask(kind, unit, pods) for kind in KINDS}
    if (crash := answers["software"]) is not None and crash.reason == "retry-disabled":
        end = "a first crash ends the job" if unit.workload.kind in _ENDS_WITH_A_CRASH else "a crashed pod stays down"
        answers["software"] = dataclasses.replace(crash, message=f"{end}: {_NO_RETRIES}")
    return Covered(
        namespace=unit.namespace,
        workload=unit.workload.name,
        kind=unit.workload.kind,
        level=unit.level,
        units=(unit.key,),
        unit_count=1,
        pods=len(pods),
        npus=sum(pod.npus for pod in pods),
        chip=answers["chip"],
        node=answers["node"],
        software=answers["software"],
        gaps=(*_refusals(answers.items()), *_spoilers(unit, pods, answers["node"], whatif, capacity)),
    )


def _refusals(answers: Iterable[tuple[FaultKind, Answer | None]]) -> Iterator[Gap]:
    """What keeps a restart from happening, each once, with the kinds of fault it leaves open."""
    found: dict[tuple[str, str], list[FaultKind]] = {}
    for kind, answer in answers:
        if answer is not None and not answer.handled and answer.reason not in BY_CHOICE:
            found.setdefault((answer.reason, answer.message), []).append(kind)
    for (reason, message), kinds in found.items():
        yield Gap(reason, message, tuple(kinds))


def _spoilers(
    unit: Unit, pods: Sequence[Pod], answer: Answer | None, whatif: WhatIf, capacity: Capacity
) -> Iterator[Gap]:
    """What would spoil the restart of a unit that is restarted."""
    if answer is None or not answer.handled:
        return
    nodes = sorted({pod.node for pod in pods if pod.node})
    spared = [name for name in nodes if name in whatif.opted_out]
    if spared:
        yield Gap("opt-out", "on these nodes the warden does nothing", KINDS, few(spared))
    careless = [pod.metadata.name for pod in pods if tolerates(pod.spec.tolerations, _OUR_TAINT)]
    if careless:
        message = f"tolerates {TAINT_KEY}: a new pod may come back to the broken node"
        yield Gap("tolerates-taint", message, ("chip", "node"), few(careless))
    cramped = {name: text for name in nodes if (text := capacity.shortage(unit.pods, {name})) is not None}
    if cramped:
        yield Gap("capacity", next(iter(cramped.values())), ("chip", "node"), few(sorted(cramped)))
    if unit.rounds_left is not None and unit.rounds_left <= LAST_ROUND:
        message = f"its operator allows {unit.rounds_left} more restart and then ends the job, whatever the cause"
        yield Gap("terminal-soon", message, KINDS)


def _merged(rows: Iterable[Covered]) -> Iterator[Covered]:
    """One row for all units of a workload that fare alike: a Deployment of 500 pods is one line."""
    alike: dict[object, list[Covered]] = {}
    for row in rows:
        words = tuple((gap.reason, gap.message, gap.faults) for gap in row.gaps)
        same = (row.namespace, row.workload, row.kind, row.level, row.chip, row.node, row.software, words)
        alike.setdefault(same, []).append(row)
    for group in alike.values():
        gaps = zip(*(row.gaps for row in group), strict=True)
        yield dataclasses.replace(
            group[0],
            units=few(sorted(unit for row in group for unit in row.units)),
            unit_count=len(group),
            pods=sum(row.pods for row in group),
            npus=sum(row.npus for row in group),
            gaps=tuple(_joined(same) for same in gaps),
        )


def _joined(same: Sequence[Gap]) -> Gap:
    return dataclasses.replace(same[0], where=few(sorted({place for gap in same for place in gap.where})))
