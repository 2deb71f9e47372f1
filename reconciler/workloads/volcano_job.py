"""Volcano Job (batch.volcano.sh/v1alpha1): all pods of the job, that is of its PodGroup, restart together.

Source: volcano job controller (pods are owned by the job; a job in a final phase makes no pods).
"""

from __future__ import annotations

from reconciler.core.memberships import deleted, of_controller, orphan, whole_job
from reconciler.core.objects import Owner, Pod, Recovery
from reconciler.core.units import Index, NoUnit, Unit

_FINAL = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


class VolcanoJob:
    controllers = frozenset({"Job.batch.volcano.sh"})
    label = None
    kinds = frozenset({"Job"})
    rebuilt = False

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        job = index.owner(pod.metadata.controller)
        if job is None:
            return orphan(pod)
        return whole_job(job, index, size=0, blocked=self.ended(job))

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        if (why := deleted(owner)) is not None:
            return why
        state = owner.status.get("state")
        phase = state.get("phase") if isinstance(state, dict) else None
        if phase in _FINAL:
            return "owner-terminal", f"Job {owner.metadata.name} is {phase}: it creates no pods any more"
        return None


WORKLOAD = VolcanoJob()
