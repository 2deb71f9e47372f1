"""Keeps the ends of containers' logs before their pods are deleted, where the policy asks for it: all at once, against
one deadline, and a delete waits for it once and never longer than that.

What is told of it afterwards is read on demand: nothing of it is held in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from reconciler.core import kept_logs
from reconciler.core.actions import Action, DeletePods, HandOver
from reconciler.core.calls import Call, Reply
from reconciler.core.kept_logs import ContainerLog, KeptLogs, Wanted
from reconciler.core.objects import Pod
from reconciler.core.recovery import Recovery
from reconciler.core.state import World
from reconciler.kube.client import KubeError
from reconciler.metrics import Metrics
from shared import aio

log = logging.getLogger(__name__)

READ_S = 0.6
"""For all reads together. A kubelet that is well answers within a hundredth of that."""
TOTAL_S = 0.9
"""A delete waits no longer, reads and the write together; a write that is under way then goes on beside it."""
WRITE_TIMEOUT_S = 5.0
SHOW_TIMEOUT_S = 5.0
AT_ONCE = 48
"""Reads of all recoveries together: the client has 100 connections, and hanging reads shall not hold the lease's."""
REMEMBERED = 1000


class Api(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...

    async def get_bytes(self, path: str, params: tuple[tuple[str, str], ...], *, timeout_s: float) -> bytes: ...


class Evidence:
    """`before` each action. Owned by the leader, whose executor ends before `close` is called.

    valid_until: monotonic second after which this replica's lease may have passed on; nothing is written then.
    """

    def __init__(self, api: Api, world: World, valid_until: Callable[[], float], metrics: Metrics) -> None:
        self._api, self._world, self._valid_until, self._metrics = api, world, valid_until, metrics
        self._done: dict[str, None] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._complaint = ""

    async def before(self, action: Action) -> None:
        """Returns at once but for the first delete of a recovery. No failure in here keeps a unit from its restart."""
        if not isinstance(action, (DeletePods, HandOver)) or not self._world.policy.evidence.logs:
            return
        try:
            if pods := self._pods(action):
                await self._gather(action.recovery, pods)
        except Exception:
            log.exception("recovery %s: its logs are not kept, the restart goes on", action.recovery.metadata.key)

    async def close(self) -> None:
        await aio.cancel(*self._writes)

    async def _gather(self, recovery: Recovery, pods: list[Pod]) -> None:
        self._done[recovery.metadata.uid] = None
        while len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]
        started = time.monotonic()
        logs = await self._read(recovery.metadata.namespace, kept_logs.wanted(pods, self._world.nodes))
        write = asyncio.create_task(self._keep(recovery, logs), name=f"evidence of {recovery.metadata.key}")
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        await asyncio.wait({write}, timeout=max(0.0, TOTAL_S - (time.monotonic() - started)))
        self._metrics.evidence_seconds.observe(time.monotonic() - started)

    def _pods(self, action: DeletePods | HandOver) -> list[Pod]:
        """The unit's pods if this action is the first to end one of them. All of them: not only those for whom the
        deletes of a minute have room now."""
        recovery = action.recovery
        if recovery.metadata.uid in self._done or recovery.status.times.deleted is not None:
            return []
        if isinstance(action, HandOver) and all(mark.value is None for mark in action.marks):
            return []
        targets = recovery.spec.targets
        found = (self._world.pods.get(f"{recovery.metadata.namespace}/{target.pod}") for target in targets)
        known = {target.uid for target in targets}
        return [pod for pod in found if pod is not None and pod.metadata.uid in known]

    async def _read(self, namespace: str, wanted: list[Wanted]) -> list[ContainerLog]:
        """Every log, or why there is none. Exact to the deadline: a read that hangs is left behind."""
        if not wanted:
            return []
        tasks = [asyncio.create_task(self._one(namespace, one), name=f"log of {one.pod}") for one in wanted]
        try:
            await asyncio.wait(tasks, timeout=READ_S)
            late = f"not read within {READ_S:g} s"
            logs = [
                task.result() if task.done() else _missing(one, late) for task, one in zip(tasks, wanted, strict=True)
            ]
        finally:
            await aio.cancel(*tasks)
        for one in logs:
            self._metrics.kept_logs.labels("missing" if one.missing is not None else "read").inc()
        return logs

    async def _one(self, namespace: str, one: Wanted) -> ContainerLog:
        if one.missing is not None:
            return _missing(one, one.missing)
        path, query = kept_logs.path_of(namespace, one)
        try:
            async with self._slots:
                raw = await self._api.get_bytes(path, query, timeout_s=READ_S)
        except KubeError as exc:
            if exc.status == 403:
                self._complain("read of a log refused", kept_logs.RIGHTS)
            return _missing(one, kept_logs.RIGHTS if exc.status == 403 else str(exc)[:200])
        text = kept_logs.text_of(raw)
        return ContainerLog(one.pod, one.container, one.node, text, missing=None if text else "the log was empty")

    async def _keep(self, recovery: Recovery, logs: list[ContainerLog]) -> None:
        """Written once; one that stands already is what the leader before has kept."""
        meta = recovery.metadata
        if time.monotonic() > self._valid_until() - WRITE_TIMEOUT_S:
            return
        call = Call("POST", kept_logs.collection(meta.namespace), kept_logs.configmap(recovery, logs))
        reply = await self._api.send(call, timeout_s=WRITE_TIMEOUT_S)
        if not reply.ok and reply.status != 409:
            self._metrics.kept_logs.labels("unwritten").inc()
            hint = kept_logs.RIGHTS if reply.status == 403 else "the restart goes on without them"
            self._complain(f"logs of recovery {meta.key} could not be kept: {reply.text}", hint)

    def _complain(self, what: str, hint: str) -> None:
        if what != self._complaint:
            self._complaint = what
            log.warning("%s (%s)", what, hint)


async def kept_of(api: Api, recovery: Recovery, *, asked_for: bool) -> KeptLogs:
    """Read what is kept of one recovery. asked_for: the policy keeps logs; else nothing is looked for."""
    if not asked_for:
        return KeptLogs([], "no logs are kept: evidence.logs is false in policy.toml")
    meta = recovery.metadata
    path = f"{kept_logs.collection(meta.namespace)}/{kept_logs.name_of(meta.name)}"
    reply = await api.send(Call("GET", path), timeout_s=SHOW_TIMEOUT_S)
    if reply.status == 404:
        return KeptLogs([], "no logs were kept of it" if recovery.status.times.deleted else "nothing is deleted yet")
    if not reply.ok:
        return KeptLogs([], kept_logs.RIGHTS if reply.status == 403 else f"cannot be read: {reply.text}")
    logs = kept_logs.read(reply.body, recovery)
    if logs is None:
        return KeptLogs([], f"ConfigMap {meta.namespace}/{kept_logs.name_of(meta.name)} is not what the warden wrote")
    return KeptLogs(logs, None)


def _missing(one: Wanted, why: str) -> ContainerLog:
    return ContainerLog(one.pod, one.container, one.node, missing=why)
