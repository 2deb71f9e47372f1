"""Retries of software faults: how many a unit has used, counted from its Recoveries, and how many are left."""

from __future__ import annotations

from reconciler.core.objects import OwnerReference
from reconciler.core.state import State
from reconciler.core.units import Index, Unit, retry_limit
from reconciler.workloads import unit_of


def used(state: State, workload_uid: str, unit_id: str) -> int:
    """Charges of all recoveries of this unit under this owner UID: a re-created owner starts anew."""
    return sum(
        recovery.status.charged
        for recovery in state.recoveries.values()
        if recovery.spec.unit == unit_id and recovery.spec.workload.uid == workload_uid
    )


def left(state: State, unit_id: str) -> int | None:
    """Retries left of a unit; None where `fault-retry-times` does not allow any."""
    index = Index(state)
    for pod in state.pods.values():
        unit = unit_of(pod, index)
        if unit.id == unit_id and isinstance(unit, Unit):
            return _left(state, unit, index)
    # Between delete and re-creation a unit has no pods: then its recovery says where its labels stand.
    for recovery in state.recoveries.values():
        spec, controller = recovery.spec, recovery.spec.controller
        if spec.unit == unit_id and controller is not None and controller.uid in state.owners:
            above = OwnerReference(controller.api_version, controller.kind, controller.name, controller.uid)
            chain = index.chain(above)
            namespace = recovery.metadata.namespace
            empty = Unit(unit_id, namespace, spec.instance, spec.level, spec.workload, controller, (), chain, spec.size)
            return _left(state, empty, index)
    return None


def _left(state: State, unit: Unit, index: Index) -> int | None:
    limit = retry_limit(unit, index)
    return None if limit is None else max(0, limit - used(state, unit.workload.uid, unit.id))
