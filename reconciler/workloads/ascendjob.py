"""AscendJob (mindxdl.gitee.com/v1): all pods of the job restart together; one job is one serving instance.

Prefill and decode instances of MindIE Motor are jobs of their own, so the others are never touched. A MindIE MS
Controller or Coordinator with `pod-rescheduling: "on"` restarts the faulted pod alone: its standby serves meanwhile.
Where the replacement does not come back, the job follows.
Source: MindCluster ascend-operator (pod names, labels, `version` counting, terminal phases).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.core.memberships import deleted, of_controller, orphan, whole_job
from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.units import FAULT_RETRY_TIMES, POD_RESCHEDULING, Index, NoUnit, Unit, label_values

_TERMINAL = ("Failed", "Succeeded")
ACTIVE_STANDBY = ("mindie-ms-controller", "mindie-ms-coordinator")
"""Jobs whose pods are an active and a standby: one serves while the other restarts."""


class AscendJob:
    controllers = frozenset({"AscendJob.mindxdl.gitee.com"})
    label = None
    kinds = frozenset({"AscendJob"})
    rebuilt = False

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        job = index.owner(pod.metadata.controller)
        if job is None:
            return orphan(pod)
        pods = tuple(index.by_controller.get(job.metadata.uid, ()))
        blocked, rounds_left = self.ended(job) or _out_of_rounds(job, pods), _rounds_left(job, pods)
        whole = whole_job(job, index, size=replicas(job), blocked=blocked, rounds_left=rounds_left)
        if job.metadata.labels.get("app") in ACTIVE_STANDBY and label_values(whole, index, POD_RESCHEDULING) == {"on"}:
            blocked = self.ended(job) or _out_of_rounds(job, (pod,))
            return replace(
                whole,
                level="Pod",
                instance=pod.metadata.name,
                pods=(pod,),
                size=1,
                blocked=blocked,
                beyond=whole,
                rounds_left=_rounds_left(job, (pod,)),
            )
        return whole

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        return of_controller(recovery, index)

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        if (why := deleted(owner)) is not None:
            return why
        conditions: Any = owner.status.get("conditions")
        for condition in conditions if isinstance(conditions, list) else ():
            if not isinstance(condition, dict):
                continue
            if condition.get("type") in _TERMINAL and condition.get("status") == "True":
                message = f"AscendJob {owner.metadata.name} is {condition['type']}: it creates no pods any more"
                return "owner-terminal", message
        return None


def replicas(job: Owner) -> int:
    """Pods that the job has when it is whole, 0 when its spec does not say."""
    specs = job.spec.get("replicaSpecs")
    if not isinstance(specs, dict):
        return 0
    wanted = [spec.get("replicas", 1) for spec in specs.values() if isinstance(spec, dict)]
    return sum(count for count in wanted if isinstance(count, int))


def _out_of_rounds(job: Owner, pods: tuple[Pod, ...]) -> tuple[str, str] | None:
    if _rounds_left(job, pods) == 0:
        rounds = f"round {_rounds(pods) + 1} of deleted pods"
        return "backoff-limit", f"{rounds} would end the job: its operator allows {backoff_limit(job)}"
    return None


def _rounds_left(job: Owner, pods: tuple[Pod, ...]) -> int | None:
    limit = backoff_limit(job)
    return None if limit is None else max(0, limit - _rounds(pods))


def _rounds(pods: tuple[Pod, ...]) -> int:
    return max((_version(pod) for pod in pods), default=0)


def backoff_limit(job: Owner) -> int | None:
    """Rounds of deleted pods after which the operator ends the job; None = no limit.

    With runPolicy.backoffLimit unset the operator takes `fault-retry-times` for it; 0 or below is unlimited.
    """
    run_policy: Any = job.spec.get("runPolicy")
    limit = run_policy.get("backoffLimit") if isinstance(run_policy, dict) else None
    if limit is None:
        text = job.metadata.labels.get(FAULT_RETRY_TIMES, "")
        limit = int(text) if text.isdecimal() else None
    return limit if isinstance(limit, int) and limit > 0 else None


def _version(pod: Pod) -> int:
    text = pod.metadata.labels.get("version", "")
    return int(text) if text.isdecimal() else 0


WORKLOAD = AscendJob()
