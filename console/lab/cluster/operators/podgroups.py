"""Stand-in for the part of Volcano that moves a PodGroup from phase to phase.

It counts bound pods only: who binds them (the lab's scheduler, the real default scheduler) does not matter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import aiohttp

from console.lab.cluster.client import ApiError, Client
from console.lab.cluster.operators.cache import Cache
from console.lab.cluster.placement import GROUP_ANNOTATION, NPU_PREFIX, finished
from console.lab.cluster.resources import NODES, PODGROUPS, PODS

log = logging.getLogger(__name__)

Object = dict[str, Any]

CYCLE_S = 0.15
OVERCOMMIT = 1.2  # Volcano's default factor: so much more than the cluster has may be enqueued


def next_phase(group: Object, members: Sequence[Object], capacity: int) -> str:
    """The phase after one scheduler cycle. ``members`` are the group's pods, ``capacity`` the NPUs of the cluster."""
    spec, phase = group.get("spec") or {}, (group.get("status") or {}).get("phase", "")
    bound = sum(1 for pod in members if pod["spec"].get("nodeName") and not finished(pod))
    if bound >= int(spec.get("minMember", 1)):
        return "Running"
    if phase in ("Running", "Unknown"):
        return "Unknown" if bound else "Pending"
    wanted = sum(int(n) for name, n in (spec.get("minResources") or {}).items() if name.startswith(NPU_PREFIX))
    return "Inqueue" if wanted <= capacity * OVERCOMMIT else "Pending"


class PodGroupPhases:
    """Looks at every PodGroup each ``cycle_s`` and writes the phases that changed."""

    def __init__(self, client: Client, *, cycle_s: float = CYCLE_S) -> None:
        self._client, self._cycle_s = client, cycle_s
        self._cache = Cache(client, (PODGROUPS, PODS, NODES), lambda *_: None)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run())
            await self._cache.synced()
            while True:
                await self._cycle()
                await asyncio.sleep(self._cycle_s)

    async def _cycle(self) -> None:
        capacity = sum(_npus(node) for node in self._cache.all(NODES))
        members: dict[tuple[str, str], list[Object]] = {}
        for pod in self._cache.all(PODS):
            if name := (pod["metadata"].get("annotations") or {}).get(GROUP_ANNOTATION):
                members.setdefault((pod["metadata"]["namespace"], name), []).append(pod)
        for group in self._cache.all(PODGROUPS):
            key = (group["metadata"]["namespace"], group["metadata"]["name"])
            mine = members.get(key, [])
            running = sum(1 for pod in mine if pod["status"].get("phase") == "Running")
            status = {"phase": next_phase(group, mine, capacity), "running": running}
            if {**(group.get("status") or {}), **status} == group.get("status"):
                continue
            try:
                answer = await self._client.merge(PODGROUPS, *key, {"status": status}, subresource="status")
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.info("PodGroup %s/%s: %s: trying again in %.2f s", *key, error or repr(error), self._cycle_s)
            else:
                self._cache.learn(PODGROUPS, answer)


def _npus(node: Object) -> int:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return sum(int(amount) for name, amount in amounts.items() if name.startswith(NPU_PREFIX))
