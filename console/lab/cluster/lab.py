"""The whole lab cluster: one `async with` starts it, and at the end of the block nothing of it runs any more."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from console.lab.cluster.client import Access, Client
from console.lab.cluster.journal import Change
from console.lab.cluster.kubelet import Kubelets
from console.lab.cluster.operators.ascendjob import LEDGER, AscendJobOperator
from console.lab.cluster.operators.infer_operator import InferOperator
from console.lab.cluster.operators.podgroups import PodGroupPhases
from console.lab.cluster.operators.statefulsets import StatefulSets
from console.lab.cluster.operators.stormservice import StormServiceOperator
from console.lab.cluster.resources import BY_PLURAL
from console.lab.cluster.scheduler import Scheduler
from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from console.lab.cluster.workloads import lab_node

log = logging.getLogger(__name__)

Object = dict[str, Any]


class LabCluster:
    """``async with LabCluster(nodes=4, chips=8) as lab:`` serves at ``lab.url``.

    Nodes are named node-0, node-1, ... A kind whose plural is in ``without`` is missing, as without its definition.
    ``port`` 0 = any free one.
    """

    def __init__(
        self,
        *,
        nodes: int = 4,
        chips: int = 8,
        without: Collection[str] = (),
        ready_s: float = 0.3,
        stop_s: float = 0.1,
        port: int = 0,
    ) -> None:
        self.store = Store(time.time, without=without)
        self.server = ApiServer(self.store, port=port)
        self.kubelets = Kubelets(self.store, ready_s=ready_s, stop_s=stop_s)
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        for number in range(nodes):
            self.store.load(lab_node(f"node-{number}", chips=chips, number=number))
        # Volcano is installed: the retry ledger of its jobs stands in its namespace.
        self.store.request("POST", "/api/v1/namespaces", body={"metadata": {"name": LEDGER[0]}})

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self.server.url

    def apply(self, obj: Object) -> Object:
        """Create an object as a user does; ValueError with the server's message when it is refused."""
        resource = next(r for r in BY_PLURAL.values() if (r.api_version, r.kind) == (obj["apiVersion"], obj["kind"]))
        namespace = obj["metadata"].get("namespace", "")
        if namespace and self.store.get("namespaces", "", namespace) is None:
            self.store.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        reply = self.store.request("POST", resource.path(namespace), body=obj)
        if not reply.ok:
            raise ValueError(reply.body["message"])
        return reply.body

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            client = await stack.enter_async_context(Client(Access(self.url)))
            loops = {
                "scheduler": Scheduler(self.store).run(),
                "kubelets": self.kubelets.run(),
                "garbage collector": self._collect_garbage(),
                "ascend-operator": AscendJobOperator(client).run(),
                "volcano": PodGroupPhases(client).run(),
                "aibrix": StormServiceOperator(client).run(),
                "infer-operator": InferOperator(client).run(),
                "statefulset controller": StatefulSets(client).run(),
            }
            for name, loop in loops.items():
                task = asyncio.create_task(loop, name=name)
                task.add_done_callback(_tell_if_dead)
                self._tasks.append(task)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._stack.aclose()
        if died := [result for result in results if isinstance(result, Exception)]:
            raise ExceptionGroup("parts of the lab cluster died", died)

    async def _collect_garbage(self) -> None:
        changed = asyncio.Event()

        def notice(change: Change) -> None:
            if change.type == "DELETED" or "deletionTimestamp" in change.object["metadata"]:
                changed.set()

        unlisten = self.store.listen(notice)
        try:
            while True:
                await changed.wait()
                changed.clear()
                self.store.collect_garbage()
        finally:
            unlisten()


def _tell_if_dead(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.critical("the lab's %s died: %r; restart the lab", task.get_name(), error)
