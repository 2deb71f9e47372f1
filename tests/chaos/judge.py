"""The invariants, each a pure function of the record: what the warden wrote, how the cluster changed, what was broken.

A violation is one sentence. Nothing here trusts the warden's own account except to know which episode a delete
belongs to: what justifies the episode is looked up in the truth.
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from reconciler.core.taints import NODE_DEAD
from shared.names import LEASE, OPT_OUT_LABEL, TAINT_KEY
from tests.chaos.record import Change, Object, Write
from tests.chaos.truth import Injected, Truth

PREFIX = "npuwarden.io/"
REAL_CHIPS = "huawei.com/AscendReal"
KNOWN_FOR_S = 60.0
"""A fault that has gone may be acted on for so long: its end travels by the same broken ways as its beginning."""
MINUTE_S = 60.0
AT_ONCE_S = 10.0
"""A delete that had seen the taint may still be on its way after somebody took it off, through a slow proxy."""


@dataclass(frozen=True)
class Deletion:
    """One pod whose end the warden has begun. version: its place in the server's order."""

    write: Write
    version: int
    at: float
    pod: Object
    recovery: Object | None

    def __str__(self) -> str:
        meta = self.pod["metadata"]
        return f"pod {meta['namespace']}/{meta['name']} ({meta['uid']}) deleted by {self.write.replica}"


@dataclass
class Record:
    """Everything that one run has left behind. changes: in the server's order."""

    changes: Sequence[Change]
    writes: Sequence[Write]
    truth: Truth
    deletes_per_min: int
    _tables: dict[tuple[str, str], list[Change]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for change in self.changes:
            self._tables[change.kind, change.uid].append(change)

    def then(self, kind: str, uid: str, version: int) -> Change | None:
        """The object as it stood at a version."""
        found = self._tables.get((kind, uid), [])
        at = bisect.bisect_right(found, version, key=lambda change: change.version)
        return found[at - 1] if at else None

    def all_then(self, kind: str, version: int) -> Iterator[Object]:
        """Every object of a kind that stood at a version."""
        for (of, uid), _ in list(self._tables.items()):
            if of == kind and (change := self.then(kind, uid, version)) is not None and change.type != "DELETED":
                yield change.object

    @cached_property
    def deletions(self) -> list[Deletion]:
        """Of every pod the first delete of ours that succeeded."""
        found: dict[str, Deletion] = {}
        for write in self.writes:
            if write.verb != "delete" or write.plural != "pods" or not write.ok or write.uid in found:
                continue
            ended = next((c for c in self._tables.get(("Pod", write.uid), ()) if _ending(c)), None)
            if ended is None:
                continue  # the record ends here
            version = max(ended.version, write.version)
            before = self.then("Pod", write.uid, ended.version - 1) or ended
            recovery = self._episode_of(write.uid, version)
            found[write.uid] = Deletion(write, version, ended.at, before.object, recovery)
        return list(found.values())

    def _episode_of(self, uid: str, version: int) -> Object | None:
        for recovery in self.all_then("Recovery", version):
            status = recovery.get("status") or {}
            if uid in targets(recovery) and status.get("phase") in ("Deleting", "Recreating", "WaitingForCapacity"):
                return recovery
        return None


def violations(record: Record) -> list[str]:
    """All of them; an empty list is what a run must end with."""
    checks = (
        blind_deletes,
        deletes_without_episode,
        episodes_without_fault,
        deletes_without_taint,
        isolations_without_cause,
        isolations_of_the_opted_out,
        deletes_outside_the_unit,
        double_deletes,
        deletes_over_budget,
        foreign_fields_touched,
        writes_without_the_lease,
    )
    return [f"{check.__name__}: {text}" for check in checks for text in check(record)]


def blind_deletes(record: Record) -> Iterator[str]:
    """Every delete names the one incarnation it may end."""
    for write in record.writes:
        if write.verb == "delete" and write.plural == "pods" and not write.uid:
            yield f"{write.namespace}/{write.name} by {write.replica}"


def deletes_without_episode(record: Record) -> Iterator[str]:
    for deletion in record.deletions:
        if deletion.recovery is None:
            yield f"{deletion}: no Recovery had claimed it"


def episodes_without_fault(record: Record) -> Iterator[str]:
    """An episode is opened for something that is broken under the unit's pods: its node, a chip, or a pod itself."""
    seen = set()
    for deletion in record.deletions:
        recovery = deletion.recovery
        if recovery is None or recovery["metadata"]["uid"] in seen or recovery["spec"].get("escalatedFrom"):
            continue
        seen.add(recovery["metadata"]["uid"])
        born = record.then("Recovery", recovery["metadata"]["uid"], deletion.version)
        assert born is not None
        first = record._tables["Recovery", recovery["metadata"]["uid"]][0]
        pods = [p for p in record.all_then("Pod", first.version) if unit(p) == unit(deletion.pod)]
        pods += [deletion.pod]
        if not any(_hits(fault, pod, first.at, deletion.at) for fault in record.truth.faults for pod in pods):
            yield f"{_named(recovery)}: nothing was broken ({recovery['spec']['cause']})"


def deletes_without_taint(record: Record) -> Iterator[str]:
    """Whatever a node or chip is the cause of begins under a standing taint; somebody may have just taken it off."""
    begun: set[str] = set()
    for deletion in sorted(record.deletions, key=lambda deletion: deletion.version):
        cause = (deletion.recovery or {}).get("spec", {}).get("cause") or {}
        if deletion.recovery is None or cause.get("kind") not in ("Hardware", "Node"):
            continue
        episode = deletion.recovery["metadata"]["uid"]
        if episode in begun:
            continue  # half a unit is worse than none: the rest goes also when the node has healed meanwhile
        begun.add(episode)
        nodes = {node["metadata"]["name"]: node for node in record.all_then("Node", deletion.version)}
        named = [name for name in cause.get("nodes") or () if name in nodes]
        if not cause.get("nodes"):
            yield f"{deletion}: its cause {cause} names no node"
        mates = [pod for pod in record.all_then("Pod", deletion.version) if unit(pod) == unit(deletion.pod)]
        homes = {pod["spec"].get("nodeName") for pod in (*mates, deletion.pod)} & nodes.keys()
        if not named or any(isolated(nodes[name]) for name in {*named, *homes}):
            continue  # one of several may have healed meanwhile, another node of the unit may have fallen ill
        taken_off = (h.began for h in record.truth.hands if h.node in named and h.what in ("stripped", "released"))
        if any(0 <= deletion.at - at < AT_ONCE_S for at in taken_off) or any(_failed(pod) for pod in mates):
            continue  # a pod that has Failed is a reason of its own
        others = (record.then("Pod", uid, deletion.version - 1) for uid in targets(deletion.recovery))
        if any(other is not None and _ending(other) for other in others):
            continue  # somebody else has ended one of its pods: the rest goes, too
        yield f"{deletion}: {', '.join(named)} carried no taint of ours\n{_story(record, deletion.at, named, episode)}"


def _story(record: Record, about: float, names: Collection[str], episode: str = "") -> str:
    """What a person asks first: when the nodes were isolated and given back, and what was the matter with them."""
    told = [(about, "HERE")]
    for change in record._tables.get(("Recovery", episode), ()):
        status = change.object.get("status") or {}
        told.append((change.at, f"{_named(change.object)}: {status.get('phase')} {status.get('message', '')}"))
    for (kind, _), changes in record._tables.items():
        if kind == "Node" and changes[0].object["metadata"]["name"] in names:
            firsts = (next(run) for _, run in groupby(changes, lambda change: change.object.get("spec")))
            told += [(c.at, f"node {c.name}: {c.object.get('spec')}") for c in firsts]
    told += [(f.began, f"broken until {f.ended}: {f}") for f in record.truth.faults if f.node in names]
    told += [(h.began, f"a person until {h.ended}: {h}") for h in record.truth.hands if h.node in names]
    near = sorted((at, text) for at, text in told if -120 < at - about < 30)
    return "\n".join(f"  {at - about:8.2f} s  {text}" for at, text in near)


def _newly_isolated(record: Record) -> Iterator[tuple[Write, Object, float]]:
    """Writes of ours that put the taint on, with the node as it was and when it was seen."""
    for write in record.writes:
        if write.plural != "nodes" or not write.ok or not isolated(write.answer):
            continue
        before = record.then("Node", write.answer["metadata"]["uid"], write.version - 1)
        after = record.then("Node", write.answer["metadata"]["uid"], write.version)
        if before is not None and after is not None and not isolated(before.object):
            yield write, before.object, after.at


def isolations_without_cause(record: Record) -> Iterator[str]:
    """A node is isolated because something on it is broken, or because a person wants it."""
    for write, _, at in _newly_isolated(record):
        faults = [f for f in record.truth.faults if f.kind != "pod" and f.node == write.name]
        wishes = [h for h in record.truth.hands if h.what == "isolated" and h.node == write.name]
        times = [(f.began, f.ended) for f in faults] + [(h.began, h.ended) for h in wishes]
        if not any(began <= at and (ended is None or ended >= at - KNOWN_FOR_S) for began, ended in times):
            yield f"node {write.name} by {write.replica}: {taints(write.answer)}, and nothing is the matter with it"


def isolations_over_the_breaker(record: Record, *, nodes: int, window_s: float) -> Iterator[str]:
    """Nodes that the warden has isolated of itself and not given back are few, within any window.

    A taint that returns after somebody has taken it off isolates nobody anew, and meanwhile its node is none of them.
    Nor does one that outlasts a wish. A node that was cordoned before it went down is in planned maintenance.
    """
    given_back = {write.version for write in record.writes if write.plural == "nodes" and not isolated(write.answer)}
    since: dict[str, float] = {}
    standing: set[str] = set()
    for change in record.changes:
        if change.kind != "Node":
            continue
        ours = next((taint for taint in taints(change.object) if taint["key"] == TAINT_KEY), None)
        if change.type == "DELETED" or (ours is None and change.version in given_back):
            since.pop(change.name, None)
            standing.discard(change.name)
        elif ours is None:
            standing.discard(change.name)
        elif change.name not in standing:
            standing.add(change.name)
            planned = ours.get("value") == NODE_DEAD and change.object["spec"].get("unschedulable")
            at = -math.inf if planned or ours.get("value") == "Manual" else change.at
            since.setdefault(change.name, at)
            fresh = {name: f"{since[name]:.1f}" for name in standing if change.at - since[name] < window_s}
            if change.name in fresh and len(fresh) > nodes:
                yield f"{fresh} isolated within {window_s:g} s, {nodes} are allowed\n{_story(record, change.at, fresh)}"


def isolations_of_the_opted_out(record: Record) -> Iterator[str]:
    for write, before, _ in _newly_isolated(record):
        if (before["metadata"].get("labels") or {}).get(OPT_OUT_LABEL) == "true":
            yield f"node {write.name} by {write.replica}, which its label says to leave alone"


def deletes_outside_the_unit(record: Record) -> Iterator[str]:
    for deletion in record.deletions:
        if deletion.recovery is None:
            continue
        named = {target["pod"] for target in deletion.recovery["spec"].get("targets") or ()}
        for pod in record.all_then("Pod", deletion.version):
            meta = pod["metadata"]
            same = meta["namespace"] == deletion.pod["metadata"]["namespace"] and meta["name"] in named
            if same and unit(pod) != unit(deletion.pod):
                yield f"{_named(deletion.recovery)} reaches from {unit(deletion.pod)} to {unit(pod)}"


def double_deletes(record: Record) -> Iterator[str]:
    """In one episode a pod is deleted once; a replacement of it only where it landed on broken hardware, not Ready."""
    ended: dict[tuple[str, str], list[Deletion]] = defaultdict(list)
    for deletion in record.deletions:
        if deletion.recovery is not None:
            ended[deletion.recovery["metadata"]["uid"], deletion.pod["metadata"]["name"]].append(deletion)
    for deletions in ended.values():
        for deletion in deletions[1:]:
            if ready(deletion.pod) or not any(
                _hits(fault, deletion.pod, deletion.at, deletion.at) for fault in record.truth.faults
            ):
                yield f"{deletion} again in {_named(deletion.recovery or {})}"


def deletes_over_budget(record: Record) -> Iterator[str]:
    times = sorted(deletion.at for deletion in record.deletions)
    for last, at in enumerate(times):
        within = last + 1 - bisect.bisect_right(times, at - MINUTE_S)
        if within > record.deletes_per_min:
            yield f"{within} pods within a minute, the budget is {record.deletes_per_min}"
            return


def foreign_fields_touched(record: Record) -> Iterator[str]:
    """A write of ours to a node leaves everything as it was but what carries our name."""
    for write in record.writes:
        if write.plural != "nodes" or not write.ok or "uid" not in (write.answer.get("metadata") or {}):
            continue
        before = record.then("Node", write.answer["metadata"]["uid"], write.version - 1)
        if before is not None and (was := foreign(before.object)) != (now := foreign(write.answer)):
            yield f"node {write.name} by {write.replica}: {was} became {now}"


def writes_without_the_lease(record: Record) -> Iterator[str]:
    """Whoever changes something holds the lease at that place in the server's order. (Events are talk.)"""
    holders: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for write in record.writes:
        if write.plural == "leases" and write.ok and (holder := write.answer["spec"].get("holderIdentity")):
            holders[write.replica].append((write.version, holder))
    for write in record.writes:
        if write.plural in ("leases", "events") or not write.ok or not write.version:
            continue
        known = holders[write.replica]
        at = bisect.bisect_right(known, (write.version, "\uffff"))
        mine = known[at - 1][1] if at else ""
        held = next((lease["spec"].get("holderIdentity") for lease in record.all_then("Lease", write.version)
                     if lease["metadata"]["name"] == LEASE), "")  # fmt: skip
        changed = record._tables.get(
            (_KINDS.get(write.plural, ""), (write.answer.get("metadata") or {}).get("uid", "")), ()
        )
        if held != mine and any(change.version == write.version for change in changed):
            yield f"{write.verb} {write.plural} {write.name} by {write.replica} as {mine or 'nobody'}, leader is {held}"


_KINDS = {"nodes": "Node", "pods": "Pod", "recoveries": "Recovery"}


def unit(pod: Object) -> tuple[str, ...]:
    """What restarts together: an AscendJob, or a PodSet of a StormService."""
    meta, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    if job := labels.get("job-name"):
        return (meta["namespace"], job)
    owners = [ref["uid"] for ref in meta.get("ownerReferences") or () if ref.get("controller")]
    return (meta["namespace"], *owners)


def chips(pod: Object) -> set[int] | None:
    """Physical ids of the chips a pod holds, None while no device plugin has said so."""
    text = (pod["metadata"].get("annotations") or {}).get(REAL_CHIPS)
    return None if not text else {int(word.rpartition("-")[2]) for word in text.split(",")}


def ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _failed(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Failed")


def targets(recovery: Object) -> set[str]:
    return {target["uid"] for target in recovery["spec"].get("targets") or ()}


def isolated(node: Object) -> bool:
    return any(taint["key"] == TAINT_KEY for taint in taints(node))


def taints(node: Object) -> list[Object]:
    return (node.get("spec") or {}).get("taints") or []


def foreign(node: Object) -> dict[str, Any]:
    """What other people have written on a node."""
    meta = node["metadata"]
    return {
        "taints": [taint for taint in taints(node) if taint["key"] != TAINT_KEY],
        "cordoned": bool((node.get("spec") or {}).get("unschedulable")),
        "labels": {key: value for key, value in (meta.get("labels") or {}).items() if not key.startswith(PREFIX)},
        "notes": {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith(PREFIX)},
    }


def lost(truth: Truth, answered: Iterable[Injected]) -> list[Injected]:
    """Steady faults nobody has answered."""
    known = {id(fault) for fault in answered}
    return [fault for fault in truth.faults if fault.steady and id(fault) not in known]


def _ending(change: Change) -> bool:
    return change.type == "DELETED" or "deletionTimestamp" in change.object["metadata"]


def _hits(fault: Injected, pod: Object, since: float, until: float) -> bool:
    if fault.began > until or (fault.ended is not None and fault.ended < since - KNOWN_FOR_S):
        return False
    if fault.kind == "pod":
        return bool(fault.pod_uid == pod["metadata"]["uid"])
    if fault.node != pod["spec"].get("nodeName"):
        return False
    held = chips(pod)
    return fault.kind == "node" or (fault.restarts and (held is None or fault.chip in held))


def _named(recovery: Object) -> str:
    return f"recovery {recovery['metadata']['name']} of {recovery['spec']['unit']}"
