"""Volcano Job (batch.volcano.sh/v1alpha1): all pods of the job, that is of its PodGroup, restart together.

Where the job's policies answer an evicted pod with RestartJob, each restart of ours is one of its `maxRetry`: the
controller counts it in `status.retryCount`, and at `maxRetry` the job is Failed instead of restarted. Where they answer
it with AbortJob, TerminateJob or CompleteJob, the first deleted pod would be the end of the job: none is deleted.
Source: volcano job controller (pods are owned by the job; a job in a final phase makes no pods; policies of a task come
before those of the job, and of each list the first that names the event counts; a deleted pod is PodEvicted).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reconciler.core.memberships import deleted, of_controller, orphan, whole_job
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, NoUnit, Unit

DEFAULT_MAX_RETRY = 3
_EVICTED = frozenset({"PodEvicted", "*"})
_ENDING = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})
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
        left = rounds_left(job)
        blocked = self.ended(job) or _ends_by_a_delete(job) or _out_of_rounds(job, left)
        return whole_job(job, index, size=0, blocked=blocked, rounds_left=left)

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


def rounds_left(job: Owner) -> int | None:
    """Restarts that the controller still allows; None = a deleted pod is no restart of the job for it."""
    if "RestartJob" not in _answers(job.spec):
        return None
    used = job.status.get("retryCount", 0)
    return max(0, _max_retry(job) - 1 - used) if isinstance(used, int) else None


def _max_retry(job: Owner) -> int:
    limit = job.spec.get("maxRetry")
    return limit if isinstance(limit, int) and limit > 0 else DEFAULT_MAX_RETRY


def _out_of_rounds(job: Owner, left: int | None) -> tuple[str, str] | None:
    if left != 0:
        return None
    why = f"its maxRetry is {_max_retry(job)}, and its policies answer PodEvicted with RestartJob"
    return "backoff-limit", f"one more restart would end Job {job.metadata.name}: {why}"


def _ends_by_a_delete(job: Owner) -> tuple[str, str] | None:
    if not (actions := sorted(_answers(job.spec) & _ENDING)):
        return None
    name = job.metadata.name
    return "policy-ends-job", f"policies of Job {name} answer PodEvicted with {actions[0]}: a deleted pod would end it"


def _answers(spec: dict[str, Any]) -> set[str]:
    """What the controller does when a pod is deleted, of each task."""
    whole, tasks = _answer(spec), spec.get("tasks")
    found = [_answer(task) or whole for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    return {action for action in found or [whole] if action is not None}


def _answer(spec: dict[str, Any]) -> str | None:
    policies: Any = spec.get("policies")
    for policy in policies if isinstance(policies, list) else ():
        if isinstance(policy, dict) and not _EVICTED.isdisjoint(_events(policy)):
            return str(policy.get("action", ""))
    return None


def _events(policy: dict[str, Any]) -> Iterator[str]:
    events = policy.get("events")
    for event in (policy.get("event"), *(events if isinstance(events, list) else ())):
        if isinstance(event, str):
            yield event


WORKLOAD = VolcanoJob()
