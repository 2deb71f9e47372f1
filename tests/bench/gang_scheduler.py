"""A scheduler that looks once a second and places a job's pods all at once, as Volcano does: a stand-in for benches.

Each pod gets a whole node: one of the namespace's (label `test`) that is Ready, keeps nobody
away, and has no pod on it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from tests.cluster import objects
from tests.cluster.api import Api, ApiError

Object = dict[str, Any]


class GangScheduler(threading.Thread):
    """Of the pods and nodes of one namespace; `close` ends it. failed: what its last failing cycle has met."""

    def __init__(self, api: Api, namespace: str, cycle_s: float) -> None:
        super().__init__(daemon=True)
        self._api, self._namespace, self._cycle_s = api, namespace, cycle_s
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._over = threading.Event()
        self.failed: Exception | None = None
        self.start()

    def close(self) -> None:
        self._over.set()
        self.join(timeout=30)

    def run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += self._cycle_s
            try:
                self._cycle()
            except (ApiError, OSError) as exc:
                self.failed = exc  # as a scheduler does, it tries again in its next cycle

    def _cycle(self) -> None:
        pods = self._api.get(self._pods)["items"]
        waiting: dict[str, list[Object]] = {}
        for pod in pods:
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                waiting.setdefault(pod["metadata"]["ownerReferences"][0]["uid"], []).append(pod)
        if not waiting:
            return
        taken = {pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]}
        free = [name for name in self._open_nodes() if name not in taken]
        for gang in waiting.values():
            if len(gang) <= len(free):
                for pod in gang:
                    self._bind(pod, free.pop())

    def _open_nodes(self) -> list[str]:
        return [
            node["metadata"]["name"]
            for node in self._api.get(f"/api/v1/nodes?labelSelector=test={self._namespace}")["items"]
            if objects.condition(node, "Ready") == "True"
            and not any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints") or ())
        ]

    def _bind(self, pod: Object, node: str) -> None:
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with contextlib.suppress(ApiError):  # it was deleted meanwhile
            self._api.post(f"{self._pods}/{name}/binding", body)
