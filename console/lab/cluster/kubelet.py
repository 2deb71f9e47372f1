"""The kubelets of all lab nodes: bound pods start and become ready, deleted pods stop, dead nodes do nothing."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from console.lab.cluster import podstatus
from console.lab.cluster.journal import Change
from console.lab.cluster.patches import MERGE_PATCH
from console.lab.cluster.placement import finished
from console.lab.cluster.resources import NODES, PODS
from console.lab.cluster.store import Store

Object = dict[str, Any]
Key = tuple[str, str]

UNREACHABLE = "node.kubernetes.io/unreachable"


class Kubelets:
    """``ready_s`` from bound to ready, at most ``stop_s`` from deleted to gone."""

    def __init__(self, store: Store, *, ready_s: float = 0.3, stop_s: float = 0.1) -> None:
        self.stuck: set[str] = set()
        """Nodes whose containers ignore SIGTERM: pods there end only by a deletion with grace 0."""
        self._store, self._ready_s, self._stop_s = store, ready_s, stop_s
        self._dead: set[str] = set()
        self._changed: set[Key] = set()
        self._wake = asyncio.Event()
        self._due: list[tuple[float, Key, str, Literal["start", "stop"]]] = []
        self._scheduled: set[tuple[str, str]] = set()
        self._next_ip = 0

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self._store.listen(self._notice)
        loop = asyncio.get_running_loop()
        self._look_again(lambda pod: True)
        try:
            while True:
                for key in [*self._changed]:
                    self._look(key, loop.time())
                self._changed.clear()
                self._wake.clear()
                while self._due and self._due[0][0] <= loop.time():
                    _, key, uid, what = heapq.heappop(self._due)
                    self._scheduled.discard((uid, what))
                    self._act(key, uid, what)
                if self._changed:
                    continue
                try:
                    async with asyncio.timeout_at(self._due[0][0] if self._due else None):
                        await self._wake.wait()
                except TimeoutError:
                    continue  # something is due
        finally:
            unlisten()

    def kill(self, node: str) -> None:
        """The machine loses power, and the node controller has noticed: Ready Unknown, unreachable, pods not ready."""
        self._dead.add(node)
        self._set_ready(node, "Unknown", "NodeStatusUnknown")
        taints = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        self._set_taints(node, add=taints)
        for pod in self._store.objects("pods"):
            if pod["spec"].get("nodeName") == node and not finished(pod):
                self._status(pod, podstatus.unready(pod, _timestamp()))

    def revive(self, node: str) -> None:
        """It boots again: Ready, what was deleted meanwhile goes, and what ran is started again or has Failed."""
        self._dead.discard(node)
        self._set_taints(node, add=[])
        self._set_ready(node, "True", "KubeletReady")
        for pod in self._store.objects("pods"):
            here = pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]
            if here and pod["status"].get("phase") == "Running":
                self._status(pod, podstatus.rebooted(pod, _timestamp()))
        self._look_again(lambda pod: pod["spec"].get("nodeName") == node)

    def fail(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """The containers of a pod exit; what follows is up to its restartPolicy."""
        pod = self._store.get("pods", namespace, name)
        if pod is None:
            raise ValueError(f"no pod {namespace}/{name} to fail")
        self._status(pod, podstatus.exited(pod, exit_code, _timestamp()))

    def _notice(self, change: Change) -> None:
        if change.resource is PODS:
            self._changed.add((change.object["metadata"]["namespace"], change.object["metadata"]["name"]))
            self._wake.set()

    def _look_again(self, wanted: Callable[[Object], bool]) -> None:
        for pod in self._store.objects("pods"):
            if wanted(pod):
                self._changed.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        self._wake.set()

    def _look(self, key: Key, now_s: float) -> None:
        """Schedule what this pod needs next, once."""
        pod = self._store.get("pods", *key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            grace_s = min(float(metadata["deletionGracePeriodSeconds"]), self._stop_s)
            self._schedule(now_s + grace_s, key, metadata["uid"], "stop")
        elif pod["status"].get("phase") == "Pending":
            self._schedule(now_s + self._ready_s, key, metadata["uid"], "start")

    def _schedule(self, at_s: float, key: Key, uid: str, what: Literal["start", "stop"]) -> None:
        if (uid, what) not in self._scheduled:
            self._scheduled.add((uid, what))
            heapq.heappush(self._due, (at_s, key, uid, what))

    def _act(self, key: Key, uid: str, what: Literal["start", "stop"]) -> None:
        pod = self._store.get("pods", *key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["spec"]["nodeName"] in self._dead:
            return
        deleted = "deletionTimestamp" in pod["metadata"]
        if what == "stop" and pod["spec"]["nodeName"] not in self.stuck:
            self._store.finish(*key, uid)
        elif what == "start" and not deleted and pod["status"].get("phase") == "Pending":
            self._start(pod)

    def _start(self, pod: Object) -> None:
        node = self._store.get("nodes", "", pod["spec"]["nodeName"])
        if node is None:
            return
        host_ip = next((a["address"] for a in node["status"].get("addresses", []) if a["type"] == "InternalIP"), "")
        mates = [p for p in self._store.objects("pods") if p["spec"].get("nodeName") == node["metadata"]["name"]]
        if chips := podstatus.assigned_chips(pod, node, mates):
            self._merge(pod, {"metadata": {"annotations": podstatus.chip_annotations(pod, host_ip, chips)}})
        self._next_ip += 1
        pod_ip = f"10.244.{self._next_ip // 250}.{self._next_ip % 250 + 1}"
        self._status(pod, podstatus.running(pod, host_ip, pod_ip, _timestamp()))

    def _status(self, pod: Object, status: Object) -> None:
        self._merge(pod, {"status": status}, "status")

    def _merge(self, pod: Object, patch: Object, subresource: str = "") -> None:
        path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"], subresource)
        self._store.request("PATCH", path, body=patch, content_type=MERGE_PATCH)

    def _set_ready(self, node: str, status: str, reason: str) -> None:
        found = self._node(node)
        ready = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": _timestamp()}
        conditions = [*(c for c in found["status"].get("conditions", []) if c["type"] != "Ready"), ready]
        self._merge_node(NODES.path("", node, "status"), {"status": {"conditions": conditions}})

    def _set_taints(self, node: str, *, add: list[Object]) -> None:
        taints = [t for t in (self._node(node).get("spec") or {}).get("taints", []) if t["key"] != UNREACHABLE]
        self._merge_node(NODES.path("", node), {"spec": {"taints": taints + add}})

    def _merge_node(self, path: str, patch: Object) -> None:
        reply = self._store.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        if not reply.ok:
            raise RuntimeError(f"the lab's API server refused {path}: {reply.body['message']}")

    def _node(self, name: str) -> Object:
        node = self._store.get("nodes", "", name)
        if node is None:
            raise ValueError(f"no node {name} in the lab")
        return node


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
