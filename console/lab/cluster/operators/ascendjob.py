"""Stand-in for MindCluster's ascend-operator: AscendJob -> PodGroup and pods, as observed on the real one.

What matters to whoever deletes its pods: a slot is refilled within milliseconds once the old object is gone, but only
while the PodGroup is past Pending; deletions of current pods count as rounds against the backoff limit; a Failed pod
ends the job for good unless the retry ledger has an entry; a job that has ended re-creates nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from console.lab.cluster.client import ApiError, Client
from console.lab.cluster.operators import ascendjob_objects as objects
from console.lab.cluster.operators import ranktable
from console.lab.cluster.operators.cache import controller
from console.lab.cluster.operators.operator import Operator
from console.lab.cluster.resources import ASCENDJOBS, CONFIGMAPS, PODGROUPS, PODS, Resource

Object = dict[str, Any]

LEDGER = ("volcano-system", "vcjob-fault-npu-cm")
LEDGER_KEY = "remain-retry-times"


@dataclass(slots=True)
class _Rounds:
    """In memory only, as in the real operator: a restart forgets the count and reads the limit anew."""

    limit: int
    version: int = 0

    @property
    def exhausted(self) -> bool:
        return 0 < self.limit < self.version


class AscendJobOperator(Operator):
    """The ``managed`` kind is AscendJob; PodGroups are made where the cluster has them."""

    managed = (ASCENDJOBS,)
    watched = (PODS, PODGROUPS, CONFIGMAPS)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._rounds: dict[str, _Rounds] = {}
        self._saved_at: dict[str, int] = {}
        self._wants_table: dict[str, bool] = {}
        """By job UID: whether the ConfigMap was there when all pods had their chips for the first time. As observed:
        one that comes later is not written before a restart of the operator."""

    def on_deleted(self, resource: Resource, obj: Object) -> None:
        """A deleted pod of the current round begins the next one; one of an older round belongs to it already."""
        owner = controller(obj)
        rounds = self._rounds.get(owner["uid"]) if owner else None
        if resource is PODS and rounds and obj["metadata"]["labels"].get("version") == str(rounds.version):
            rounds.version += 1
        if resource is ASCENDJOBS:
            self._rounds.pop(obj["metadata"]["uid"], None)
            self._wants_table.pop(obj["metadata"]["uid"], None)

    async def reconcile(self, resource: Resource, obj: Object) -> None:
        """End the job, or fill its empty slots."""
        job, metadata = obj, obj["metadata"]
        if "deletionTimestamp" in metadata or objects.retries(job) is None:
            return
        group = self.cache.get(PODGROUPS, metadata["namespace"], objects.group_name(job))
        if _has(job, "Failed"):
            if group is not None:
                await self.delete(PODGROUPS, group)
            return
        rounds = self._rounds.setdefault(metadata["uid"], _Rounds(objects.backoff_limit(job)))
        pods = self.cache.owned(PODS, metadata["uid"])
        if rounds.exhausted:
            await self._end(
                job, f"Job {metadata['name']} has failed because it has reached the specified backoff limit"
            )
            return
        restarting = await self._restarting(job, pods)
        if restarting is None:
            await self._end(job, f"Job {metadata['name']} has failed because a pod failed")
            return
        if self.cache.served(PODGROUPS):
            if group is None:
                await self.create(PODGROUPS, objects.pod_group(job))
                return
            if (group.get("status") or {}).get("phase", "") in ("", "Pending"):
                return
        taken = {objects.slot(pod) for pod in pods}
        for kind, index in objects.replicas(job):
            if (kind.lower(), index) not in taken:
                await self.create(PODS, objects.pod(job, kind, index, rounds.version))
        await self._write_status(job, restarting=restarting)
        await self._write_rank_table(job)

    async def _restarting(self, job: Object, pods: list[Object]) -> bool | None:
        """Whether a Failed pod of the job is being replaced; None when it ends the job."""
        restarting = _has(job, "Restarting")
        specs = {kind.lower(): spec for kind, spec in job["spec"]["replicaSpecs"].items()}
        for pod in pods:
            if pod["status"].get("phase") != "Failed":
                continue
            policy = specs.get(objects.slot(pod)[0], {}).get("restartPolicy")
            if policy == "ExitCode" and _exit_code(pod) >= 128:
                await self.delete(PODS, pod)
            elif not restarting and not await self._in_ledger(job):
                return None
            restarting = True
        return restarting

    async def _in_ledger(self, job: Object) -> bool:
        """Whether somebody keeps retries for this job: read from the API server, the cache may be a moment old."""
        if not objects.retries(job) or not self.cache.served(PODGROUPS):
            return False
        try:
            ledger = await self.client.get(CONFIGMAPS, *LEDGER)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        entries = json.loads((ledger.get("data") or {}).get(LEDGER_KEY) or "{}")
        entry = entries.get(f"{job['metadata']['namespace']}/{objects.group_name(job)}") or {}
        return int(entry.get("Times", 0)) >= 1

    async def _end(self, job: Object, message: str) -> None:
        """Failed is the end: the PodGroup goes, the pods stay and are never re-created."""
        conditions = [c for c in _conditions(job) if c["type"] not in ("Running", "Restarting")]
        conditions.append(_condition("Failed", "JobFailed", message))
        await self.merge(ASCENDJOBS, job, {"status": {"conditions": conditions}}, "status")

    async def _write_status(self, job: Object, *, restarting: bool) -> None:
        pods = self.cache.owned(PODS, job["metadata"]["uid"])
        active = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        all_run = len(active) == len(list(objects.replicas(job)))
        conditions = _conditions(job) or [_condition("Created", "AscendJobCreated", "the job is created")]
        # Running stays true when pods vanish; only Restarting takes it away, and only Running takes Restarting away.
        wanted = "Running" if all_run else "Restarting" if restarting else ""
        if wanted and not _has(job, wanted):
            conditions = [c for c in conditions if c["type"] not in ("Running", "Restarting")]
            conditions.append(_condition(wanted, f"Job{wanted}", f"the job is {wanted.lower()}"))
        counts = Counter(objects.slot(pod)[0] for pod in active)
        kinds = {kind: {"active": counts[kind.lower()]} for kind, _ in objects.replicas(job)}
        status = {"conditions": conditions, "replicaStatuses": kinds}
        if (job.get("status") or {}) != status:
            await self.merge(ASCENDJOBS, job, {"status": status}, "status")

    async def _write_rank_table(self, job: Object) -> None:
        metadata = job["metadata"]
        configmap = self.cache.get(CONFIGMAPS, metadata["namespace"], f"rings-config-{metadata['name']}")
        pods, expected = self.cache.owned(PODS, metadata["uid"]), len(list(objects.replicas(job)))
        if ranktable.complete(pods, expected):
            self._wants_table.setdefault(metadata["uid"], configmap is not None)
        if configmap is None or not self._wants_table.get(metadata["uid"], True):
            return
        old = (configmap.get("data") or {}).get("hccl.json", "")
        new = ranktable.table(old, pods, expected)
        if new != old:
            # As observed: ``version`` is the time of the save before this one.
            version = self._saved_at.get(metadata["uid"], 0)
            await self.merge(CONFIGMAPS, configmap, {"data": {"hccl.json": new, "version": str(version)}})
            self._saved_at[metadata["uid"]] = int(time.time())


def _conditions(job: Object) -> list[Object]:
    conditions: list[Object] = (job.get("status") or {}).get("conditions") or []
    return conditions


def _has(job: Object, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in _conditions(job))


def _condition(kind: str, reason: str, message: str) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastTransitionTime": now, "lastUpdateTime": now}
    return {"type": kind, "status": "True", "reason": reason, "message": message, **times}


def _exit_code(pod: Object) -> int:
    states = [c.get("state", {}).get("terminated", {}) for c in pod["status"].get("containerStatuses", [])]
    return max((int(state.get("exitCode", 0)) for state in states), default=0)
