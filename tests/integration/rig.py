"""One test's warden on the shared control plane: nodes, workloads, hosts and daemons, all of it gone at the end."""

import time
import uuid
from pathlib import Path
from typing import Any

import redis

from console.lab.cluster.resources import BY_PLURAL
from console.lab.cluster.workloads import mindie_job
from console.lab.host import SimHost
from shared.model import SCHEMA_VERSION, AgentInfo, NodeReport
from shared.names import LEASE, NAMESPACE, TAINT_KEY, report_key
from shared.wire import decode_report, encode
from tests.cluster import objects
from tests.cluster.api import Api
from tests.cluster.plane import ControlPlane
from tests.integration.daemons import HEARTBEAT_S, Agent, Daemon, Reconciler
from tests.integration.journal import Journal
from tests.redis_server import RedisServer
from tests.waiting import wait_until

Object = dict[str, Any]

RECOVERIES = "/apis/npuwarden.io/v1alpha1"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
POLICY: dict[str, Any] = {
    "detect": {"agent_silent_after_s": 4 * HEARTBEAT_S},
    "isolate": {"hold_down_s": 2},
    # Several tests in five minutes break the same chip in the same way, on a handful of nodes.
    "breaker": {"nodes": "100%", "min_nodes": 1000},
    "common_cause": {"nodes": 1000},
    "budget": {"restarting": "100%", "deletes_per_min": 1000},
}
PREFILL, DECODE = "prefill-0", "decode-0"
HBM = "80E18402"
"""SeparateNPU: the node is tainted, the pods on the chip restart at once."""


class Rig:
    """``namespace`` names everything of it: nodes are ``<namespace>-a``, ..., and its pods run on no others.

    ``leader``: a reconciler that leads already and outlives the test.
    """

    def __init__(
        self,
        plane: ControlPlane,
        kubeconfig: Path,
        redis_server: RedisServer,
        directory: Path,
        leader: Reconciler | None = None,
    ) -> None:
        self.plane, self.api, self.kubeconfig, self.directory = plane, plane.api, kubeconfig, directory
        self.broker = redis_server
        self.redis = redis.Redis.from_url(redis_server.url)
        self.namespace = f"test-{uuid.uuid4().hex[:8]}"
        self.nodes: list[str] = []
        self.leader = leader
        self._daemons: list[Daemon] = []
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.journal = Journal(
            self.api,
            {
                "Node": "/api/v1/nodes",
                "Pod": f"/api/v1/namespaces/{self.namespace}/pods",
                "Recovery": f"{RECOVERIES}/namespaces/{self.namespace}/recoveries",
            },
        )

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.kill()
        self.redis.close()
        self.journal.close()
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", {"gracePeriodSeconds": 0})
        for name in self.nodes:
            if self.api.find(f"/api/v1/nodes/{name}"):
                self.api.delete(f"/api/v1/nodes/{name}")

    # -- the cluster ---------------------------------------------------------------------------------------------

    def add_nodes(self, count: int, **labels: str) -> None:
        """Ready nodes of eight NPUs, each with a healthy report in Redis until an agent of its own speaks."""
        names = [f"{self.namespace}-{letter}" for letter in "abcdefgh"[len(self.nodes) : len(self.nodes) + count]]
        for name in names:
            self.api.post("/api/v1/nodes", objects.node(name, labels={"test": self.namespace, **labels}))
            self.report(name)
        self.nodes += names
        wait_until("the nodes Ready", lambda: all(_schedulable(self.node(name)) for name in names))

    def node(self, name: str) -> Object:
        node: Object = self.api.get(f"/api/v1/nodes/{name}")
        return node

    def taint(self, name: str) -> Object | None:
        return our_taint(self.node(name))

    def apply(self, obj: Object) -> None:
        """Create an object as a user does."""
        kinds = {(r.api_version, r.kind): r for r in BY_PLURAL.values()}
        resource = kinds[obj["apiVersion"], obj["kind"]]
        self.api.post(resource.path(self.namespace), obj)

    def mindie(self, name: str, role: Any = "prefill", **options: Any) -> None:
        """A MindIE instance of two pods, by default a whole node each."""
        self.apply(mindie_job(name, role, namespace=self.namespace, node_selector={"test": self.namespace}, **options))

    def pods(self, prefix: str = "") -> dict[str, Object]:
        """By name: the pods whose names begin so."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in found if pod["metadata"]["name"].startswith(prefix)}

    def running(self, prefix: str, count: int, timeout_s: float = 20) -> dict[str, Object]:
        """The pods, once there are so many and all are Ready and know their chips."""

        def look() -> dict[str, Object] | None:
            pods = self.pods(prefix)
            return pods if len(pods) == count and all(serving(pod) for pod in pods.values()) else None

        found = wait_until(f"{count} pods {prefix}* Ready", look, timeout_s)
        assert found is not None
        return found

    def role(self, pods: dict[str, Object], role: str) -> dict[str, Object]:
        """Of the pods of a StormService those of one role."""
        return {name: pod for name, pod in pods.items() if pod["metadata"]["labels"].get("role-name") == role}

    def recoveries(self) -> list[Object]:
        found = self.api.get(f"{RECOVERIES}/namespaces/{self.namespace}/recoveries")["items"]
        return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))

    def mindie_pair(self, **options: Any) -> tuple[dict[str, Object], dict[str, Object]]:
        """A prefill and a decode instance on four of five nodes: their pods."""
        self.add_nodes(5)
        self.mindie(PREFILL, **options)
        self.mindie(DECODE, "decode", **options)
        return self.running(PREFILL, 2), self.running(DECODE, 2)

    def recovered(self, timeout_s: float = 25) -> Object:
        """The one recovery of this namespace, once it has ended; it must be Recovered and stay alone."""

        def look() -> list[Object]:
            found = self.recoveries()
            return found if found and all(one["status"]["times"].get("finished") for one in found) else []

        try:
            found = wait_until("the recovery has ended", look, timeout_s)
        except AssertionError as exc:
            raise AssertionError(f"{exc}; recoveries: {self.recoveries()}\n{self.tails()}") from None
        assert [one["status"]["phase"] for one in found] == ["Recovered"], f"{found}\n{self.tails()}"
        return found[0]

    # -- the warden ----------------------------------------------------------------------------------------------

    def host(self, node: str) -> SimHost:
        path = self.directory / node
        return SimHost.open(path) if path.exists() else SimHost.create(path, "910B", 8)

    def agent(self, node: str, *, start: bool = True, **options: Any) -> Agent:
        """The node's agent, running; by default it has also spoken."""
        agent = Agent(node, self.host(node), self.broker.url, **options)
        self._daemons.append(agent)
        agent.start()
        if start:
            agent.wait_ready(lambda: self.reported(node).session != self.namespace, 40)
        return agent

    def reconciler(
        self,
        *,
        crash_at: str = "",
        pod: str = "",
        redis_url: str = "",
        kubeconfig: Path | None = None,
        policy: dict[str, Any] = POLICY,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> Reconciler:
        """A started replica; `leads()` waits for it."""
        url = redis_url or self.broker.url
        account = kubeconfig or self.kubeconfig
        made = Reconciler(self.directory, account, url, policy, crash_at=crash_at, pod=pod, settings=settings)
        self._daemons.append(made)
        made.start()
        return made

    def forget_leader(self) -> None:
        forget_leader(self.api)

    def leader_age_s(self) -> float:
        """Seconds since the leader was elected."""
        assert self.leader is not None
        return time.monotonic() - self.leader.led_since

    def report(self, node: str) -> None:
        """A healthy report of a node without an agent."""
        session = self.namespace
        report = NodeReport(SCHEMA_VERSION, node, session, 1, "boot", time.time(), AgentInfo("test"))
        self.redis.set(report_key(node), encode(report), ex=3600)

    def reported(self, node: str) -> NodeReport:
        """The node's newest report."""
        raw = self.redis.get(report_key(node))
        assert isinstance(raw, bytes), f"{node} has never reported"
        return decode_report(raw, node=node)

    def tails(self) -> str:
        """The ends of all logs, for a test that has failed."""
        daemons = [*self._daemons, *([self.leader] if self.leader else [])]
        return "\n".join(f"{daemon.name}{daemon.tail()}" for daemon in daemons)


def forget_leader(api: Api) -> None:
    """Spare a test the seconds that a standby waits for a dead leader's lease: the dead write nothing."""
    if api.find(LEASE_PATH):
        api.delete(LEASE_PATH)


def our_taint(node: Object) -> Object | None:
    taints = node["spec"].get("taints") or []
    return next((taint for taint in taints if taint["key"] == TAINT_KEY), None)


def uids(pods: dict[str, Object]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def homes(pods: dict[str, Object]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods.values()}


def terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def serving(pod: Object) -> bool:
    return not terminating(pod) and objects.condition(pod, "Ready") == "True"


def _schedulable(node: Object) -> bool:
    """Ready, and the controller manager has taken its own not-ready taint off."""
    return objects.condition(node, "Ready") == "True" and not node["spec"].get("taints")
