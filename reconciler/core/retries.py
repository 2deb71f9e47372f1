"""Retries of software faults: how many a unit has used, counted from its Recoveries, and how many are left.

They are counted by owner UID and unit. A pod whose name is drawn (of a Deployment, say) is never seen twice under that
name: all pods that its controller makes from the same template, hence with the same `generateName`, share one count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from reconciler.core.objects import OwnerReference
from reconciler.core.recovery import History, Recovery
from reconciler.core.state import State
from reconciler.core.units import Index, Unit, retry_limit
from reconciler.workloads import unit_of

_DRAWN = 5
"""Letters that the API server appends to a `generateName`, which it cuts to `_KEPT` first."""
_KEPT = 58

Account = tuple[str, str]
"""(UID of the workload, unit or template): what one count of retries belongs to."""


def account_of(unit: Unit) -> Account:
    """The count that a failure of this unit is charged to."""
    prefix = next((pod.metadata.generate_name[:_KEPT] for pod in unit.pods if unit.level == "Pod"), "")
    if prefix and unit.id.endswith(f"/{unit.instance}"):
        return unit.workload.uid, _template(unit.id, unit.instance, prefix)
    return unit.workload.uid, unit.id


def charges(recoveries: Iterable[Recovery]) -> Mapping[Account, int]:
    """Retries used, of every count at once: of the recoveries that are kept, and of those before the oldest of them."""
    table: Counter[Account] = Counter()
    oldest: dict[Account, Recovery] = {}
    for recovery in recoveries:
        for account in _accounts(recovery):
            table[account] += recovery.status.charged
            if account not in oldest or age(recovery) < age(oldest[account]):
                oldest[account] = recovery
    for account, recovery in oldest.items():
        table[account] += recovery.spec.history.charged
    return table


def history_of(unit: Unit, index: Index) -> History:
    """What a new recovery of this unit says of those before it."""
    mine = index.recoveries_by_unit.get(unit.id, [])
    before = max((recovery.spec.history.recoveries + 1 for recovery in mine), default=0)
    return History(account_of(unit)[1], max(before, len(mine)), used(unit, index))


def age(recovery: Recovery) -> tuple[str, int, str]:
    """Sorts recoveries by their opening. The API server's clock has whole seconds only."""
    return recovery.metadata.creation_timestamp or "", recovery.spec.history.recoveries, recovery.metadata.name


def used(unit: Unit, index: Index) -> int:
    """Retries that this unit has used under its present owner: a re-created owner starts anew."""
    return charges(index.recoveries_by_workload.get(unit.workload.uid, ())).get(account_of(unit), 0)


def left_of(unit: Unit, index: Index, spent: Mapping[Account, int]) -> int | None:
    """Retries left of a unit, never below zero; None where `fault-retry-times` does not allow any."""
    limit = retry_limit(unit, index)
    return None if limit is None else max(0, limit - spent.get(account_of(unit), 0))


def left(state: State, unit_id: str) -> int | None:
    """The same by the unit's id; None too where no such unit is known."""
    index, spent = Index(state), charges(state.recoveries.values())
    for pod in state.pods.values():
        unit = unit_of(pod, index)
        if unit.id == unit_id and isinstance(unit, Unit):
            return left_of(unit, index, spent)
    # Between delete and re-creation a unit has no pods: then its recovery says where its labels stand.
    for recovery in state.recoveries.values():
        spec, controller = recovery.spec, recovery.spec.controller
        if spec.unit == unit_id and controller is not None and controller.uid in state.owners:
            above = OwnerReference(controller.api_version, controller.kind, controller.name, controller.uid)
            chain = index.chain(above)
            namespace = recovery.metadata.namespace
            empty = Unit(unit_id, namespace, spec.instance, spec.level, spec.workload, controller, (), chain, spec.size)
            return left_of(empty, index, spent)
    return None


def _accounts(recovery: Recovery) -> Iterator[Account]:
    """Every count that a Recovery may belong to: it does not say whether its pod's name was drawn."""
    spec = recovery.spec
    yield spec.workload.uid, spec.unit
    if spec.level == "Pod" and spec.unit.endswith(f"/{spec.instance}"):
        yield spec.workload.uid, _template(spec.unit, spec.instance, spec.instance[:-_DRAWN])


def _template(unit_id: str, instance: str, prefix: str) -> str:
    return f"{unit_id.removesuffix(instance)}{prefix}*"
