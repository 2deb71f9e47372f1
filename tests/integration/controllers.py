"""A program beside the control plane: the stand-in operators, and a device plugin that says which chips a pod got.

python -m tests.integration.controllers URL TOKEN CA_FILE
"""

import asyncio
import ssl
import sys

import aiohttp

from console.lab.cluster.client import Access, ApiError, Client
from console.lab.cluster.operators.ascendjob import AscendJobOperator
from console.lab.cluster.operators.cache import Cache, Event
from console.lab.cluster.operators.infer_operator import InferOperator
from console.lab.cluster.operators.podgroups import PodGroupPhases
from console.lab.cluster.operators.stormservice import StormServiceOperator
from console.lab.cluster.podstatus import assigned_chips, chip_annotations
from console.lab.cluster.resources import NODES, PODS, Resource
from tests.integration.groups import LeaderWorkerSets, VolcanoJobs

READY_LINE = "controllers run"
SILENT_PLUGIN = "device-plugin"
"""A node whose label of this name is `silent` has a device plugin that writes no annotations."""

Object = dict[str, object]


class DevicePlugin:
    """Writes `huawei.com/AscendReal` to every pod that is bound with NPUs, the lowest free chips of its node."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._cache = Cache(client, (PODS, NODES), self._notice)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run())
            await self._cache.synced()
            while True:
                self._changed.clear()
                await self._assign()
                await self._changed.wait()

    def _notice(self, _event: Event, resource: Resource, _obj: object) -> None:
        if resource is PODS:
            self._changed.set()

    async def _assign(self) -> None:
        pods = self._cache.all(PODS)
        for pod in pods:
            metadata, name = pod["metadata"], pod["spec"].get("nodeName")
            node = self._cache.get(NODES, "", name) if name else None
            if node is None or "deletionTimestamp" in metadata:
                continue
            if (node["metadata"].get("labels") or {}).get(SILENT_PLUGIN) == "silent":
                continue
            mates = [mate for mate in pods if mate["spec"].get("nodeName") == name]
            chips = assigned_chips(pod, node, mates)
            if not chips:
                continue
            patch = {"metadata": {"uid": metadata["uid"], "annotations": chip_annotations(pod, "10.0.0.1", chips)}}
            try:
                answer = await self._client.merge(PODS, metadata["namespace"], metadata["name"], patch)
            except (ApiError, aiohttp.ClientError, TimeoutError):
                continue  # gone, replaced, or the API server is away: the next change looks again
            self._cache.learn(PODS, answer)
            pods = self._cache.all(PODS)


async def main(url: str, token: str, ca_file: str) -> None:
    access = Access(url, token, ssl.create_default_context(cafile=ca_file))
    async with Client(access) as client, asyncio.TaskGroup() as tasks:
        operators = (AscendJobOperator, StormServiceOperator, InferOperator, VolcanoJobs, LeaderWorkerSets)
        for part in (*operators, PodGroupPhases, DevicePlugin):
            tasks.create_task(part(client).run(), name=part.__name__)
        print(READY_LINE, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
