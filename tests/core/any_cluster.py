"""Any small cluster: nodes, workloads of every kind with right, wrong or missing labels, and what may restart of them.

What may restart together is written down here a second time, by the names of the pods: the properties are checked
against this and not against the plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.core.build import Object, ascend_job, node, owner_ref, pod, pod_set, role_set, storm_service

NODES = ("a", "b", "c", "d", "e", "f")
KINDS = (
    "server",
    "coordinator",
    "storm-2",
    "storm-1",
    "storm-1-pod",
    "storm-mixed",
    "deployment",
    "lws",
    "infer",
    "bare",
)
WISHES = ("force", "grace", "force", "force", "grace", "force", "off", "Force", None, "conflict")
HALVES = (tuple(range(4)), tuple(range(4, 8)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One workload as it is drawn. places: numbers of nodes, taken in turn. chips: which half, None = unknown."""

    kind: str
    wish: str | None
    retries: str | None
    places: tuple[int, ...]
    chips: int | None
    on_owner: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that restart together, by name.

    allowed: its labels allow a restart. limit: retries it has, 0 where mends_itself: its controller replaces what
    fails. whole: all pods of the job that may have to follow.
    """

    name: str
    pods: tuple[str, ...]
    allowed: bool
    limit: int
    mends_itself: bool
    whole: tuple[str, ...] = ()


@dataclass
class Layout:
    """nodes: their names. objects: all of the cluster. groups: by the name of each pod; a bare pod has none."""

    nodes: tuple[str, ...]
    objects: list[Object] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)


def wanted(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Wanted]:
    return st.builds(
        Wanted,
        kind=st.sampled_from(kinds),
        wish=st.sampled_from(WISHES),
        retries=st.sampled_from(("1", "1", "2", "3", "0", "x", None)),
        places=st.lists(st.integers(0, len(NODES) - 1), min_size=4, max_size=4).map(tuple),
        chips=st.sampled_from((0, 1, None)),
        on_owner=st.booleans(),
    )


LAYOUTS = st.tuples(st.integers(2, 6), st.lists(wanted(), min_size=1, max_size=3))


def layout(nodes: int, workloads: list[Wanted]) -> Layout:
    made = Layout(NODES[:nodes])
    made.objects += [node(name) for name in made.nodes]
    for number, item in enumerate(workloads):
        _Builder(made, item, f"w{number}").build()
    return made


class _Builder:
    def __init__(self, into: Layout, item: Wanted, name: str) -> None:
        self.into, self.item, self.name = into, item, name
        self._turn = 0

    def build(self) -> None:
        getattr(self, f"_{self.item.kind.replace('-', '_')}")()

    def _labels(self, *, owner: bool) -> dict[str, str]:
        """`on_owner`: where the labels stand; a conflict is another value on the other one of the two."""
        item = self.item
        here = owner == item.on_owner
        found = {} if item.retries is None or not here else {"fault-retry-times": item.retries}
        if item.wish == "conflict":
            found["fault-scheduling"] = "force" if owner else "grace"
        elif item.wish is not None and here:
            found["fault-scheduling"] = item.wish
        return found

    def _pod(self, name: str, owner: Object | None, **labels: str) -> str:
        on = self.into.nodes[self.item.places[self._turn % 4] % len(self.into.nodes)]
        self._turn += 1
        chips = None if self.item.chips is None else HALVES[self.item.chips]
        mine = self._labels(owner=False) | labels
        self.into.objects.append(pod(name, on, owner, labels=mine, chips=chips))
        self.into.pods.append(name)
        return name

    def _group(self, *pods: str, whole: tuple[str, ...] = (), mends_itself: bool = False) -> None:
        item = self.item
        allowed = item.wish in ("force", "grace")
        limit = int(item.retries) if item.retries is not None and item.retries.isdecimal() and not mends_itself else 0
        for name in pods:
            self.into.groups[name] = Group(f"{self.name}/{pods[0]}", pods, allowed, limit, mends_itself, whole or pods)

    def _owner(self, api: str, kind: str, name: str, above: Object | None, spec: Object | None = None) -> Object:
        meta: Object = {"name": name, "namespace": "ml", "uid": f"uid-{kind}-{name}", "labels": {}}
        meta["ownerReferences"] = [owner_ref(above)] if above else []
        made = {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec or {}, "status": {}}
        self.into.objects.append(made)
        return made

    def _job(self, **labels: str) -> tuple[str, ...]:
        # Its operator ends a job by a count of its own: here it has none, `test_edge_cases` has that.
        job = ascend_job(self.name, labels=self._labels(owner=True) | labels, replicas=2)
        job["spec"]["runPolicy"] = {"backoffLimit": 0}
        self.into.objects.append(job)
        return tuple(self._pod(f"{self.name}-{role}-0", job, version="0") for role in ("master", "worker"))

    def _server(self) -> None:
        self._group(*self._job(app="mindie-ms-server"))

    def _coordinator(self) -> None:
        pods = self._job(app="mindie-ms-coordinator", **{"pod-rescheduling": "on"})
        for name in pods:
            self._group(name, whole=pods)

    def _roles(self) -> Object:
        service = storm_service(self.name)
        service["metadata"]["labels"] = self._labels(owner=True)
        roles = role_set(f"{self.name}-r", service)
        self.into.objects += [service, roles]
        return roles

    def _storm_2(self) -> None:
        roles = self._roles()
        for number in range(2):
            whole = pod_set(f"{self.name}-r-{number}", roles)
            self.into.objects.append(whole)
            self._group(*(self._pod(f"{self.name}-r-{number}-{i}", whole) for i in range(2)))

    def _storm_1(self) -> None:
        roles = self._roles()
        self._group(*(self._pod(f"{self.name}-r-p-{i}", roles) for i in range(2)), mends_itself=True)

    def _storm_1_pod(self) -> None:
        roles = self._roles()
        for i in range(2):
            self._group(self._pod(f"{self.name}-r-p-{i}", roles, **{"pod-rescheduling": "on"}), mends_itself=True)

    def _storm_mixed(self) -> None:
        roles = self._roles()
        self._group(self._pod(f"{self.name}-r-q-0", roles, **{"pod-rescheduling": "on"}), mends_itself=True)
        self._group(*(self._pod(f"{self.name}-r-p-{i}", roles) for i in range(2)), mends_itself=True)

    def _deployment(self) -> None:
        top = self._owner("apps/v1", "Deployment", self.name, None, {"replicas": 2})
        top["metadata"]["labels"] = self._labels(owner=True)
        replicas = self._owner("apps/v1", "ReplicaSet", f"{self.name}-7f", top, {"replicas": 2})
        for i in range(2):
            self._group(self._pod(f"{self.name}-7f-p{i}", replicas))

    def _lws(self) -> None:
        top = self._owner(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            self.name,
            None,
            {"replicas": 2, "leaderWorkerTemplate": {"size": 2}},
        )
        top["metadata"]["labels"] = self._labels(owner=True)
        leaders = self._owner("apps/v1", "StatefulSet", self.name, top)
        name = "leaderworkerset.sigs.k8s.io/name"
        for number in range(2):
            labels = {name: self.name, "leaderworkerset.sigs.k8s.io/group-index": str(number)}
            leader = self._pod(f"{self.name}-{number}", leaders, **labels)
            above = next(obj for obj in self.into.objects if obj["kind"] == "Pod" and obj["metadata"]["name"] == leader)
            workers = self._owner("apps/v1", "StatefulSet", f"{self.name}-{number}", above)
            self._group(leader, self._pod(f"{self.name}-{number}-1", workers, **labels))

    def _infer(self) -> None:
        group = "mindcluster.huawei.com/v1"
        top = self._owner(group, "InferServiceSet", self.name, None)
        top["metadata"]["labels"] = self._labels(owner=True)
        service = self._owner(group, "InferService", f"{self.name}-0", top)
        roles = self._owner(group, "InstanceSet", f"{self.name}-0-prefill", service)
        for number in range(2):
            workload = self._owner("apps/v1", "StatefulSet", f"{self.name}-0-prefill-{number}", roles, {"replicas": 2})
            labels = {"infer.huawei.com/inferservice-name": f"{self.name}-0"}
            self._group(*(self._pod(f"{self.name}-0-prefill-{number}-{i}", workload, **labels) for i in range(2)))

    def _bare(self) -> None:
        self._pod(self.name, None)
