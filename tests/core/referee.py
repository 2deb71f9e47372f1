"""Judges every call of a reconciler against what has happened, from nothing but the objects, the reports and the clock.

It shares no decision with the core: which pods restart together stands in the layout, which pods are hit is worked out
here from the reports that got through, the Ready conditions and the pods.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.lab.cluster.resources import Target, parse_path
from console.lab.cluster.store import Store
from console.scenario.virtual_clock import Clock
from reconciler.core.calls import Call, Reply
from reconciler.core.policy import Policy
from shared.model import Fault, FaultLevel
from shared.names import (
    CONTROL_CONFIGMAP,
    ISOLATE_ANNOTATION,
    ISOLATION_ANNOTATION,
    NAMESPACE,
    OFFERED_ANNOTATION,
    OPT_OUT_LABEL,
    RELEASE_ANNOTATION,
    TAINT_KEY,
)
from tests.core.any_cluster import Group, Layout
from tests.core.build import Object

RELEASED_WITHIN_S = 5.0
ROUNDING_S = 1e-6
OURS = {ISOLATION_ANNOTATION, ISOLATE_ANNOTATION, RELEASE_ANNOTATION, OFFERED_ANNOTATION}
RESTARTS = (FaultLevel.SEPARATE_NPU, FaultLevel.RESTART_BUSINESS)
HOLDS_A_SLOT = ("Isolating", "Deleting", "Recreating")


@dataclass(slots=True)
class _NodeFacts:
    """What can be known of a node: what its agent said and when, since when it is not Ready (seconds)."""

    faults: dict[str, tuple[Fault, float]] = field(default_factory=dict)
    pending: tuple[Fault, ...] = ()
    speaks: bool = True
    silent_since: float = 0.0
    not_ready_since: float | None = None
    released_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Hit:
    kind: str
    """hardware | software"""
    node: str | None


class Referee:
    """`before` and `after` each call, `look` at each instant, `rests` when all that is due then has been done."""

    def __init__(self, store: Store, clock: Clock, layout: Layout, policy: Policy) -> None:
        self._store, self._clock, self._layout, self._policy = store, clock, layout, policy
        self._nodes: dict[str, _NodeFacts] = {}
        self._redis_up, self._redis_since = True, -1000.0
        self._ever_hit: set[str] = set()
        self._initial: dict[str, list[Object]] = {}
        self._begun: list[float] = []
        self._node_before: Object = {}
        self._deletes_first = False
        self.deletes = 0
        self.first_deletes: list[str] = []

    # What happens in the cluster.

    def said(self, node: str, faults: Iterable[Fault]) -> None:
        facts = self._nodes.setdefault(node, _NodeFacts())
        facts.pending, facts.speaks = tuple(faults), True
        if self._redis_up:
            self._deliver(facts)

    def silent(self, node: str) -> None:
        if (facts := self._nodes.get(node)) is not None and facts.speaks:
            facts.speaks, facts.silent_since = False, self._clock.t

    def redis(self, *, up: bool) -> None:
        if up and not self._redis_up:
            self._redis_since = self._clock.t
        self._redis_up = up
        for facts in self._nodes.values():
            if up and facts.speaks:
                self._deliver(facts)

    def release_asked(self, node: str) -> None:
        self._nodes[node].released_at = self._clock.t

    def isolate_asked(self, node: str) -> None:
        self._nodes[node].released_at = None

    def _deliver(self, facts: _NodeFacts) -> None:
        now = self._clock.t
        facts.faults = {f.id: (f, facts.faults.get(f.id, (f, now))[1]) for f in facts.pending}

    # What is looked at.

    def look(self) -> None:
        """Take down who is hit at this instant."""
        for name, facts in self._nodes.items():
            ready = _ready(self._node(name))
            facts.not_ready_since = None if ready else facts.not_ready_since or self._clock.t
        for pod in self._store.objects("pods"):
            if self._hits(pod):
                self._ever_hit.add(pod["metadata"]["uid"])

    def rests(self, tainted: Mapping[str, str], *, refused: bool) -> None:
        """A person's release has been obeyed within seconds, unless the API server was in the way."""
        for name, facts in self._nodes.items():
            if facts.released_at is None:
                continue
            annotations = self._node(name)["metadata"].get("annotations") or {}
            asked_again = set(facts.faults) - set(self._forgiven(name))
            if refused or (asked_again and RELEASE_ANNOTATION not in annotations):
                facts.released_at = self._clock.t if refused else None
            elif self._clock.t > facts.released_at + RELEASED_WITHIN_S:
                assert name not in tainted, f"{name} was released by hand and is isolated all the same"
                facts.released_at = None

    def before(self, call: Call, holder: str) -> None:
        if call.method == "GET":
            return
        target = parse_path(call.path, self._store.resources)
        match (call.method, target.resource.kind):
            case ("PATCH", "Node"):
                self._node_before = copy.deepcopy(self._node(target.name))
            case ("DELETE", "Pod"):
                self._pod_delete(call, target, holder)
            case ("POST", "Recovery"):
                self._opened(call)
            case ("PATCH", "Pod"):
                assert set(call.body["metadata"]) <= {"annotations", "uid", "resourceVersion"}
            case ("POST", "Event") | ("PATCH", "Recovery") | ("DELETE", "Recovery"):
                pass
            case (_, "ConfigMap"):
                assert call.method != "DELETE"
            case other:
                raise AssertionError(f"nobody asked for {other} {call.path}")

    def after(self, call: Call, reply: Reply) -> None:
        if call.method == "GET" or reply.status >= 300:
            return
        target = parse_path(call.path, self._store.resources)
        if (call.method, target.resource.kind) == ("PATCH", "Node"):
            self._node_written(self._node_before, self._node(target.name), self._paused())
        elif target.resource.kind == "Recovery" and call.method in ("PATCH", "POST"):
            self._charges(reply.body)
            if reply.body["status"]["phase"] == "Deleting":
                self._initial.setdefault(reply.body["metadata"]["uid"], reply.body["spec"]["targets"])
        elif (call.method, target.resource.kind) == ("DELETE", "Pod"):
            self.deletes += 1
            if self._deletes_first:
                self._ration()

    # The rules.

    def _node_written(self, old: Object, new: Object, paused: bool) -> None:
        def foreign(node: Object) -> Any:
            spec, meta = node.get("spec") or {}, node["metadata"]
            notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in OURS}
            taints = [t for t in spec.get("taints") or [] if t["key"] != TAINT_KEY]
            return taints, spec.get("unschedulable"), meta.get("labels"), notes, _ready(node)

        assert foreign(old) == foreign(new), "what others wrote on a node was changed"
        if paused and (taint := _taint(new)) is not None and taint["value"] != "Probation":
            assert _same_taint(_taint(old), taint), "a node was isolated during a pause"

    def _pod_delete(self, call: Call, target: Target, holder: str) -> None:
        name, uid = target.name, call.body["preconditions"]["uid"]
        pod = self._store.get("pods", "ml", name)
        self._deletes_first = pod is not None and not _ends(pod)
        if pod is None or pod["metadata"]["uid"] != uid:
            return  # the precondition makes it harmless
        self.look()
        assert not self._paused(), f"{name} is deleted during a pause"
        group = self._layout.groups.get(name)
        assert group is not None, f"{name} is deleted and nothing would bring it back"
        assert group.allowed, f"{name} is deleted although nothing allows it"
        recovery = self._recovery_of(uid)
        status, spec = recovery["status"], recovery["spec"]
        assert (status["phase"], status["holder"]) == ("Deleting", holder), f"{name}: {status}"
        initial = self._initial[recovery["metadata"]["uid"]]
        together = group.whole if spec.get("escalatedFrom") else group.pods
        assert {t["pod"] for t in initial} <= set(together), f"{name} is no part of {[t['pod'] for t in initial]}"
        escalated = bool(spec.get("escalatedFrom"))
        if uid in {t["uid"] for t in initial}:
            hit = any(t["uid"] in self._ever_hit for t in initial)
            assert escalated or hit, f"{name} of {spec['unit']} is deleted and nothing ever hit its unit"
            if self._untouched(initial):
                self._first_delete(recovery, group, escalated=escalated)
        else:
            assert uid in self._ever_hit, f"{name}, a new pod of {spec['unit']}, is deleted and nothing ever hit it"

    def _first_delete(self, recovery: Object, group: Group, *, escalated: bool) -> None:
        unit = recovery["spec"]["unit"]
        self.first_deletes.append(unit)
        pods = [pod for name in group.whole for pod in [self._store.get("pods", "ml", name)] if pod is not None]
        hits = {hit for pod in pods if pod["metadata"]["name"] in group.pods for hit in self._hits(pod)}
        assert hits or escalated, f"{unit} is restarted for what has healed"
        for hit in hits:
            node = self._store.get("nodes", "", hit.node) if hit.kind == "hardware" and hit.node else None
            if node is not None:
                taint = _taint(node)
                assert taint is not None, f"{unit}: no taint on {hit.node}"
                assert taint["value"] != "Probation", f"{unit}: {hit.node} takes work again"

    def _ration(self) -> None:
        now = self._clock.t
        self._begun = [at for at in self._begun if now - at < 60 - ROUNDING_S] + [now]
        limit = self._policy.budget.deletes_per_min
        assert len(self._begun) <= limit, f"{len(self._begun)} pods were deleted within a minute, the limit is {limit}"

    def _opened(self, call: Call) -> None:
        spec = call.body["spec"]
        assert not self._paused() or call.body["status"]["phase"] == "Exhausted", "an episode is opened during a pause"
        if not spec.get("voluntary"):
            return
        held = [r for r in self._store.objects("recoveries") if r["status"]["phase"] in HOLDS_A_SLOT]
        slots = [r for r in held if r["spec"].get("voluntary")]
        assert len(slots) < 2, f"{spec['unit']} is the third that still serves"
        services = {r["spec"]["workload"]["uid"] for r in held}
        assert spec["workload"]["uid"] not in services, f"two instances of {spec['workload']['name']} at once"

    def _charges(self, written: Object) -> None:
        charged = written["status"].get("charged", 0)
        assert charged in (0, 1), f"{written['spec']['unit']} is charged {charged} times for one episode"
        unit = written["spec"]["unit"]
        total = sum(
            r["status"].get("charged", 0)
            for r in self._store.objects("recoveries")
            if r["spec"]["unit"] == unit and r["spec"].get("instance") == written["spec"].get("instance")
        )
        limit = self._limit(written)
        assert total <= limit, f"{unit} was charged {total} times and has {limit} retries"

    def _limit(self, recovery: Object) -> int:
        targets = [t["pod"] for t in recovery["spec"].get("targets") or []]
        names = targets or [n for n, group in self._layout.groups.items() if _of(recovery, n, group)]
        return max((self._layout.groups[name].limit for name in names), default=0)

    # Facts.

    def _hits(self, pod: Object) -> set[_Hit]:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        facts, group = self._nodes.get(node) if node else None, self._layout.groups.get(name)
        found: set[_Hit] = set()
        if facts is not None and self._opted_out(node):
            return found
        if pod["status"].get("phase") == "Failed" and group is not None and group.limit > 0:
            found.add(_Hit("software", node))
        if facts is None:
            return found
        if self._dead(node, facts) and "NodeDead" not in self._forgiven(node):
            found.add(_Hit("hardware", node))
        forgiven = self._forgiven(node)
        for fault, since in facts.faults.values():
            ripe = fault.level in RESTARTS
            if fault.level is FaultLevel.RESTART_REQUEST:
                ripe = self._clock.t - since >= self._policy.reschedule.restart_request_after_s
            if ripe and fault.confirmed and fault.id not in forgiven and _uses(pod, fault.chip):
                found.add(_Hit("hardware", node))
        return found

    def _dead(self, name: str, facts: _NodeFacts) -> bool:
        if facts.not_ready_since is None:
            return False
        alone = self._clock.t - facts.not_ready_since >= self._policy.detect.not_ready_after_s
        lost_s = (
            self._clock.t - max(facts.silent_since, self._redis_since) + 15
        )  # its last report came up to 15 s before
        lost = not facts.speaks and self._redis_up and lost_s >= self._policy.detect.agent_silent_after_s
        return alone or lost

    def _untouched(self, targets: list[Object]) -> bool:
        found = [(self._store.get("pods", "ml", t["pod"]), t["uid"]) for t in targets]
        return all(p is not None and p["metadata"]["uid"] == uid and not _ends(p) for p, uid in found)

    def _recovery_of(self, uid: str) -> Object:
        found = [
            recovery
            for recovery in self._store.objects("recoveries")
            if recovery["status"]["phase"] == "Deleting"
            and uid in {t["uid"] for t in recovery["spec"].get("targets") or []}
        ]
        assert len(found) == 1, f"{len(found)} open recoveries delete pod {uid}"
        return found[0]

    def _forgiven(self, node: str) -> list[str]:
        text = (self._node(node)["metadata"].get("annotations") or {}).get(ISOLATION_ANNOTATION)
        return list(json.loads(text).get("released", [])) if text else []

    def _opted_out(self, node: str) -> bool:
        return (self._node(node)["metadata"].get("labels") or {}).get(OPT_OUT_LABEL) == "true"

    def _paused(self) -> bool:
        control = self._store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP)
        data = (control or {}).get("data") or {}
        until = data.get("paused_until")
        return bool(data.get("paused")) and (until is None or self._clock.timestamp() < until)

    def _node(self, name: str) -> Object:
        found = self._store.get("nodes", "", name)
        assert found is not None
        return found


def _ready(node: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def _taint(node: Object) -> Object | None:
    return next((t for t in (node.get("spec") or {}).get("taints") or [] if t["key"] == TAINT_KEY), None)


def _same_taint(old: Object | None, new: Object) -> bool:
    return old is not None and (old["effect"], old["value"]) == (new["effect"], new["value"])


def _ends(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _uses(pod: Object, chip: int | str) -> bool:
    text = (pod["metadata"].get("annotations") or {}).get("huawei.com/AscendReal")
    return chip == "node" or text is None or str(chip) in {part.rpartition("-")[2] for part in text.split(",")}


def _of(recovery: Object, name: str, group: Group) -> bool:
    """Whether a pod belongs to the unit of a recovery that has no targets yet."""
    spec = recovery["spec"]
    workload, instance = spec["workload"]["name"], spec.get("instance") or ""
    return name.startswith(f"{workload}-") and (not instance or name.startswith(instance))
