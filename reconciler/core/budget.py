"""The restart budget: how many units that still serve may be restarted at once, one at a time in each service.

A unit that is dead anyway needs no slot: waiting would only make its outage longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from reconciler.core.judge import Verdict
from reconciler.core.objects import Owner, Pod
from reconciler.core.policy import share
from reconciler.core.recovery import Recovery
from reconciler.core.state import State
from reconciler.core.triggers import chips_of
from reconciler.core.units import Index, NoUnit, Unit
from reconciler.workloads import unit_of
from shared.model import NODE, Fault, FaultLevel
from shared.names import MIN_READY_ANNOTATION

LEAST_SLOTS = 2
_HOLDS_A_SLOT = ("Isolating", "Deleting", "Recreating")
"""A recovery that waits for capacity, or is over, leaves its slot to the next."""
_SERVICE_LABEL = "jobID"
"""MindIE Motor: one service is many jobs with one jobID. Elsewhere the workload is the service."""
_ROLE_LABELS = ("role-name", "infer.huawei.com/instanceset-name", "app")
"""StormService role, infer-operator InstanceSet, MindIE component: the first that a pod has."""


def dead_anyway(state: State, verdicts: Mapping[str, Verdict], unit: Unit) -> bool:
    """Whether the unit has stopped serving whatever we do: dead node, Failed pod, or a fatal fault on a chip of it."""
    for pod in unit.pods:
        verdict = verdicts.get(pod.node) if pod.node else None
        if pod.failed or (verdict is not None and verdict.dead):
            return True
        if verdict is not None and any(_fatal(state, pod, fault) for fault in verdict.faults):
            return True
    return False


def _fatal(state: State, pod: Pod, fault: Fault) -> bool:
    if not fault.confirmed or fault.chip == NODE or fault.code in state.network_codes:
        return False
    if fault.level < FaultLevel.RESTART_BUSINESS or fault.level is FaultLevel.PRE_SEPARATE_NPU:
        return False
    held = chips_of(pod, state.heard.get(pod.node or ""))
    return held is None or fault.chip in held


def slots_used(state: State) -> int:
    """Units that still served and are being restarted now."""
    return sum(r.spec.voluntary for r in state.recoveries.values() if r.status.phase in _HOLDS_A_SLOT)


class RestartBudget:
    """The budget of one plan. `admit` counts what it has let pass."""

    def __init__(self, state: State, index: Index) -> None:
        self._state, self._index = state, index
        self._admitted: set[str] = set()
        self._down: set[str] = set()
        self._asked = False

    def goes_down(self, unit: Unit) -> None:
        """A unit that is dead anyway is restarted by this plan: none that still serves is taken from its service."""
        self._down.add(_service(unit.workload.uid, unit.chain, unit.pods))

    def admit(self, unit: Unit) -> tuple[str, str] | None:
        """Why this unit, which still serves, is not to be restarted now: (word, sentence); None = it has its slot."""
        self._asked = True
        service = _service(unit.workload.uid, unit.chain, unit.pods)
        if not self._unlimited and (service in self._busy | self._down | self._admitted):
            return "budget", "another instance of its service is being restarted: one at a time"
        used = self._slots_used + len(self._admitted)
        if used >= self._slots:
            return "budget", f"{used} units that still serve are being restarted, the limit is {self._slots}"
        if (why := self._too_few_left(unit, service)) is not None:
            return "min-ready", why
        self._admitted.add(service)
        return None

    def used(self) -> tuple[int, int | None]:
        """(slots taken, those that this plan takes included; slots there are, None = no unit has asked for one)."""
        return self._slots_used + len(self._admitted), self._slots if self._asked else None

    @cached_property
    def _unlimited(self) -> bool:
        return self._state.policy.budget.restarting == "100%"

    @cached_property
    def _holders(self) -> list[Recovery]:
        return [r for r in self._state.recoveries.values() if r.status.phase in _HOLDS_A_SLOT]

    @cached_property
    def _slots_used(self) -> int:
        return slots_used(self._state)

    @cached_property
    def _busy(self) -> frozenset[str]:
        """Services with an instance down: a second one is not taken from them."""
        found = set()
        for recovery in self._holders:
            owner = self._state.owners.get(recovery.spec.workload.uid)
            found.add(_service(recovery.spec.workload.uid, (owner,) if owner is not None else (), ()))
        return frozenset(found)

    @cached_property
    def _slots(self) -> int:
        restarting = self._state.policy.budget.restarting
        return max(LEAST_SLOTS, share(restarting, self._units, key="budget.restarting"))

    @cached_property
    def _units(self) -> int:
        """Units with NPUs in the cluster. One controller's pods are one unit, or one each."""
        keys, single = set(), 0
        for pods in self._index.by_controller.values():
            unit = unit_of(pods[0], self._index) if pods[0].npus else None
            if isinstance(unit, Unit):
                keys.add(unit.key)
                single += len(pods) - 1 if unit.level == "Pod" else 0
        return len(keys) + single

    def _too_few_left(self, unit: Unit, service: str) -> str | None:
        """Why the service's role would have fewer Ready instances than its owner allows."""
        notes = [owner.metadata.annotations for owner in unit.chain]
        texts = {note[MIN_READY_ANNOTATION] for note in notes if MIN_READY_ANNOTATION in note}
        if not texts:
            return None
        text = texts.pop()
        if texts or not text.isdecimal():
            return f"annotation {MIN_READY_ANNOTATION} is no number, or differs: nothing that serves is restarted"
        role = _role(unit.pods)
        left = len(self.ready_instances(unit, service, role))
        if left >= int(text):
            return None
        where = f"role {role}" if role else "its service"
        return f"{left} other instances of {where} are Ready, {MIN_READY_ANNOTATION} asks for {text}"

    def ready_instances(self, unit: Unit, service: str, role: str) -> list[Unit]:
        """The other units of this service and role all of whose pods are Ready."""
        found: dict[str, Unit] = {}
        for pod in self._state.pods.values():
            if pod.metadata.namespace != unit.namespace or _role((pod,)) != role:
                continue
            other = unit_of(pod, self._index)
            if isinstance(other, NoUnit) or other.key == unit.key or other.key in found:
                continue
            if _service(other.workload.uid, other.chain, other.pods) == service:
                found[other.key] = other
        return [other for other in found.values() if _serves(other)]


def ready_beside(state: State, index: Index, unit: Unit) -> tuple[str, list[Unit]]:
    """(role of the unit, "" = it has none; the other instances of that role that are Ready)."""
    role, service = _role(unit.pods), _service(unit.workload.uid, unit.chain, unit.pods)
    return role, RestartBudget(state, index).ready_instances(unit, service, role)


def _serves(unit: Unit) -> bool:
    return len(unit.pods) >= unit.size and all(pod.ready and not pod.terminating for pod in unit.pods)


def _service(uid: str, owners: Iterable[Owner], pods: Iterable[Pod]) -> str:
    labels = [owner.metadata.labels for owner in owners] + [pod.metadata.labels for pod in pods]
    spaces = [owner.metadata.namespace for owner in owners] + [pod.metadata.namespace for pod in pods]
    job = next((found[_SERVICE_LABEL] for found in labels if found.get(_SERVICE_LABEL)), None)
    return f"{spaces[0]}/{job}" if job is not None else uid


def _role(pods: Iterable[Pod]) -> str:
    return next((pod.metadata.labels[key] for pod in pods for key in _ROLE_LABELS if key in pod.metadata.labels), "")
