"""A whole cluster on a virtual clock: objects, the lives of pods, agents, and the real core as the reconciler.

No network, no sleep, no randomness: an hour takes a second and is the same every time. Scenario files run on it, and so
do the core's own tests:

    cluster = VirtualCluster(objects)
    cluster.run_until(10)
    cluster.report("node-a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    cluster.run_until(45)
    assert cluster.recoveries[0]["status"]["phase"] == "Recovered"

What is done between two `run_until` happens at the instant the clock stands at; the warden looks at it, with all else
that is due then, when the next `run_until` begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import msgspec

from console import access
from console.lab.cluster.journal import Change
from console.lab.cluster.patches import merge_patch
from console.lab.cluster.resources import Resource
from console.lab.cluster.store import Store
from console.scenario.virtual_agents import Agents
from console.scenario.virtual_clock import Clock
from console.scenario.virtual_objects import Object, failed, spelling, with_ready
from console.scenario.virtual_pods import PodLife, Recreate
from console.scenario.virtual_warden import Warden
from reconciler.core.actions import Hold
from reconciler.core.policy import Policy
from reconciler.core.recovery import FINISHED_PHASES
from reconciler.core.resources import RETRY_LEDGER
from reconciler.core.retries import left
from reconciler.core.units import Index
from reconciler.core.why import verdicts
from reconciler.workloads import unit_of
from shared.model import Fault, FaultLevel, Unknown, fault_id
from shared.names import (
    CONDITION,
    CONTROL_CONFIGMAP,
    NAMESPACE,
    TAINT_KEY,
)

OPEN_STEP_S = 1.0
"""The warden looks at least so often while a recovery is open,"""
IDLE_STEP_S = 5.0
"""and so often while none is: as the daemon does."""


VOLCANO = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RETRY_LEDGER.namespace}},)
"""What stands wherever Volcano does: the namespace for the retry ledger."""


class NoSuchObject(LookupError):
    """A step names an object (or a kind) that is not there."""


def fault(chip: int | Literal["node"], code: str, level: FaultLevel, *, confirmed: bool = True) -> Fault:
    """An open fault as an agent reports it, since the moment of the report."""
    return Fault(id=fault_id(code, chip), code=code, chip=chip, level=level, since=0.0, confirmed=confirmed)


class VirtualCluster:
    """`objects` as the API serves them; every node has an agent, which reports no fault until told otherwise.

    policy: the default policy unless given. recreate: how deleted pods come back, None = never. Raises ValueError for
    an object of a kind the lab does not serve.
    """

    warden_type: ClassVar[type[Warden]] = Warden
    """Whose hand is in the cluster: tests put one in its place that looks on at every call."""

    def __init__(
        self,
        objects: Sequence[Object],
        *,
        policy: Policy | None = None,
        recreate: Recreate | None = Recreate(),  # noqa: B008
    ) -> None:
        self.clock = Clock()
        self.store = Store(self.clock.wall)
        for obj in [*VOLCANO, *objects]:
            self.store.load(obj)
        self.pods = PodLife(self.store, self.clock, recreate)
        self.warden = self.warden_type(self.store, self.clock, policy or Policy())
        self.agents = Agents(self.clock, self.warden.hear)
        self._recoveries: dict[str, Object] = {}
        self._events: list[str] = []
        self.store.listen(self._seen)
        for node in self.store.objects("nodes"):
            self.report(node["metadata"]["name"])

    # What others do to the cluster, at the instant the clock stands at.

    def report(self, node: str, faults: Iterable[Fault] = (), unknown: Iterable[Unknown] = ()) -> None:
        """What the node's agent says from now on. The `since` of a new fault is now, whatever it says."""
        self._check_node(node)
        fresh = [msgspec.structs.replace(item, since=self.clock.wall()) for item in faults]
        self.agents.report(node, fresh, unknown, chips=self._chips(node))

    def silence(self, node: str) -> None:
        """The node's agent says nothing more."""
        self._check_node(node)
        self.agents.silence(node)

    def set_ready(self, node: str, status: str) -> None:
        """The Ready condition of a node: "True", "False" or "Unknown"."""
        self.store.load(with_ready(self._existing("nodes", "", node), status, self.clock.timestamp()))

    def fail(self, pod: str, *, exit_code: int = 1) -> None:
        """Pod `namespace/name` ends: phase Failed, its containers terminated with this code."""
        namespace, _, name = pod.partition("/")
        self.store.load(failed(self._existing("pods", namespace, name), exit_code, self.clock.timestamp()))

    def merge(self, target: str, patch: Object) -> None:
        """A JSON merge patch by someone else; it may change status and spec alike."""
        resource, namespace, name = self.target(target)
        self.store.load(merge_patch(self._existing(resource.plural, namespace, name), patch))

    def create(self, obj: Object) -> None:
        """A new object by someone else, as it is written, status included."""
        resource, namespace, name = self.target(spelling(obj))
        if self.store.get(resource.plural, namespace, name) is not None:
            raise NoSuchObject(f"{spelling(obj)} is there already")
        self.store.load(obj)

    def delete(self, target: str) -> None:
        """A deletion by someone else. A pod is gone at once, on a stuck node it stays Terminating."""
        resource, namespace, name = self.target(target)
        current = self._existing(resource.plural, namespace, name)
        stuck = resource.kind == "Pod" and self.pods.is_stuck(current["spec"].get("nodeName"))
        self.store.request("DELETE", resource.path(namespace, name), body={} if stuck else {"gracePeriodSeconds": 0})

    def stick(self, node: str) -> None:
        """From now on no pod on this node ends by itself: only grace 0 removes it."""
        self._check_node(node)
        self.pods.stick(node)

    def redis(self, *, up: bool) -> None:
        """The reports can be read (again), or not."""
        self.agents.redis(up=up)
        self.warden.world.reports_ok = up

    def restart_reconciler(self) -> None:
        """A new leader with nothing but what is stored in the cluster and in Redis."""
        self.warden.restart()
        self.warden.world.reports_ok = self.agents.redis_up
        self.agents.read_again()

    def refuse(self, verb: str, target: str, *, status: int, times: int = 1) -> None:
        """The API server answers the warden's next `times` such requests with `status`."""
        self.target(target)
        self.warden.refusals.add(verb, target, status, times)

    def isolate(self, node: str) -> None:
        """A person isolates a node."""
        self.merge(f"Node/{node}", access.isolation("by hand"))

    def release(self, node: str) -> None:
        """A person releases a node."""
        self.merge(f"Node/{node}", access.release("by hand"))

    def pause(self, reason: str | None) -> None:
        """A person pauses the warden, or lets it go on (None)."""
        metadata = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
        control = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        current = self.store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP) or control
        self.store.load(merge_patch(current, access.pausing(reason)))

    # The clock.

    def run_until(self, t: float) -> None:
        """Go through every instant up to and including `t` (seconds from the start) at which something is due."""
        self.go_to(t)
        self.settle()

    def go_to(self, t: float) -> None:
        """The same without `t` itself: the clock stands at `t`, and what comes first there is yet to be done."""
        if t > self.clock.t:
            self.settle()
        while (ahead := self._next_instant()) < t:
            self.clock.advance_to(ahead)
            self.settle()
        self.clock.advance_to(t)

    def settle(self) -> None:
        """What is due by itself at this instant, then the warden looks."""
        self.pods.step()
        if self.agents.redis_up:
            self.agents.step()
        self.warden.look()

    def _next_instant(self) -> float:
        busy = any(not _finished(recovery) for recovery in self.store.objects("recoveries"))
        due = [self.pods.next_due(), self.agents.next_due(), self.warden.next_due()]
        ahead = [at for at in due if at is not None and at > self.clock.t]
        return min([*ahead, self.clock.t + (OPEN_STEP_S if busy else IDLE_STEP_S)])

    # What has come of it.

    @property
    def deleted(self) -> dict[str, str]:
        """Pods the warden has deleted since the start, and how; the second incarnation of a name is `name#2`."""
        return dict(self.warden.deleted)

    @property
    def tainted(self) -> dict[str, str]:
        """Effect of the warden's taint, by node."""
        return {
            node["metadata"]["name"]: taint["effect"]
            for node in self.store.objects("nodes")
            for taint in (node.get("spec") or {}).get("taints") or []
            if taint["key"] == TAINT_KEY
        }

    @property
    def recoveries(self) -> list[Object]:
        """Every Recovery since the start, oldest first, finished and removed ones too."""
        return list(self._recoveries.values())

    @property
    def events(self) -> list[str]:
        """Reasons of the Kubernetes Events since the start."""
        return list(self._events)

    def condition(self, node: str) -> str | None:
        """Status of the node condition NPUHealthy, None before the warden has written it."""
        conditions = self._existing("nodes", "", node)["status"].get("conditions") or []
        return next((c["status"] for c in conditions if c["type"] == CONDITION), None)

    def why(self, subject: str) -> list[Hold]:
        """The verdicts on a unit or node; a workload stands for all its units."""
        found = verdicts(self.warden.snapshot(), self.warden.plan())
        return [hold for key, holds in found.items() if covers(subject, key) for hold in holds]

    def retries(self, subject: str) -> dict[str, int | None]:
        """Software restarts left by unit, for the unit or all units of the workload; None = its labels allow none."""
        state = self.warden.snapshot()
        index = Index(state)
        units = {unit_of(pod, index).id for pod in state.pods.values()}
        units |= {recovery.spec.unit for recovery in state.recoveries.values()}
        return {unit: left(state, unit) for unit in sorted(units) if covers(subject, unit)}

    def target(self, text: str) -> tuple[Resource, str, str]:
        """`Kind/namespace/name` or, cluster-wide, `Kind/name`. Raises NoSuchObject for anything else."""
        kind, *rest = text.split("/")
        resource = next((r for r in self.store.resources if r.kind == kind), None)
        if resource is None or len(rest) != 1 + resource.namespaced or not all(rest):
            wanted = "Kind/namespace/name, or Kind/name for Node and Namespace, of a kind the lab serves"
            raise NoSuchObject(f"{text!r} is not {wanted}")
        return resource, rest[0] if resource.namespaced else "", rest[-1]

    def _check_node(self, name: str) -> None:
        """A node whose object was deleted still has its agent."""
        if not self.agents.knows(name):
            self._existing("nodes", "", name)

    def _existing(self, plural: str, namespace: str, name: str) -> Object:
        found = self.store.get(plural, namespace, name)
        if found is None:
            raise NoSuchObject(
                f"there is no {plural} {namespace + '/' if namespace else ''}{name} at {self.clock.t:g} s"
            )
        return found

    def _seen(self, change: Change) -> None:
        if change.resource.kind == "Recovery":
            self._recoveries[change.object["metadata"]["uid"]] = change.object
        elif change.resource.kind == "Event" and change.type == "ADDED":
            self._events.append(str(change.object.get("reason", "")))

    def _chips(self, node: str) -> int:
        found = self.store.get("nodes", "", node)
        capacity = ((found or {}).get("status") or {}).get("capacity") or {}
        return sum(int(n) for name, n in capacity.items() if name.startswith("huawei.com/") and str(n).isdigit())


def covers(subject: str, unit: str) -> bool:
    """Whether `subject` is this unit, or the workload it is a unit of."""
    return unit == subject or unit.startswith(f"{subject}/")


def _finished(recovery: Object) -> bool:
    return (recovery.get("status") or {}).get("phase") in FINISHED_PHASES
