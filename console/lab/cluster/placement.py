"""Where a pod may run: a pure function of the pods and nodes, as the default scheduler and Volcano's gang decide it.

Looked at: Ready, cordon, taints and tolerations, nodeSelector, NPUs (``huawei.com/*``). CPU and memory are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

NPU_PREFIX = "huawei.com/"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer for one pod: ``node``, or ``why`` not, in the scheduler's words."""

    pod: Object
    node: str = ""
    why: str = ""


@dataclass(slots=True)
class _Room:
    node: Object
    free: Counter[str] = field(default_factory=Counter)
    pods: int = 0


def place(pods: Sequence[Object], nodes: Sequence[Object], groups: Sequence[Object]) -> list[Placement]:
    """One answer for every pod that waits. A pod of a PodGroup is bound only when ``minMember`` of the group can be."""
    rooms = [_Room(node, _allocatable(node)) for node in nodes if ready(node)]
    by_name = {room.node["metadata"]["name"]: room for room in rooms}
    minimum = {_key(group): int(group.get("spec", {}).get("minMember", 1)) for group in groups}
    bound: Counter[tuple[str, str]] = Counter()
    waiting: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not finished(pod):
            bound[_group(pod)] += 1
            if node in by_name:
                _take(by_name[node], pod)
        elif not node and not finished(pod) and "deletionTimestamp" not in pod["metadata"]:
            group = _group(pod)
            alone = group not in minimum
            waiting.setdefault((group[0], f"pod/{pod['metadata']['name']}") if alone else group, []).append(pod)
    answers: list[Placement] = []
    for group, members in waiting.items():
        placed = [_place_one(pod, rooms, len(nodes)) for pod in members]
        fit = sum(1 for answer in placed if answer.node)
        if group in minimum and bound[group] + fit < minimum[group]:
            for answer in placed:
                if answer.node:
                    _take(by_name[answer.node], answer.pod, sign=-1)
            why = f"{fit}/{len(members)} tasks in gang schedulable: pod group is not ready, minMember {minimum[group]}"
            placed = [Placement(answer.pod, why=answer.why or why) for answer in placed]
        answers += placed
    return answers


def ready(node: Object) -> bool:
    """Whether the kubelet answers."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def finished(pod: Object) -> bool:
    """A pod that has ended holds nothing."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def npus(pod: Object) -> Counter[str]:
    """NPUs requested, by resource name."""
    total: Counter[str] = Counter()
    for container in pod["spec"].get("containers", []):
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, amount in amounts.items():
            if name.startswith(NPU_PREFIX):
                total[name] += int(amount)
    return total


def _place_one(pod: Object, rooms: Sequence[_Room], all_nodes: int) -> Placement:
    wanted, reasons = npus(pod), Counter[str]()
    if unready := all_nodes - len(rooms):
        reasons["node(s) were not ready"] = unready
    best: tuple[tuple[int, int, int, str], _Room] | None = None
    for room in rooms:
        if reason := _obstacle(pod, room, wanted):
            reasons[reason] += 1
            continue
        soft = len(_untolerated(pod, room.node, "PreferNoSchedule"))
        # Spread: most free NPUs first for those who need some, then fewest pods.
        rank = (soft, -sum(room.free.values()) if wanted else 0, room.pods, room.node["metadata"]["name"])
        if best is None or rank < best[0]:
            best = (rank, room)
    if best is None:
        details = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return Placement(pod, why=f"0/{all_nodes} nodes are available: {details}.")
    _take(best[1], pod)
    return Placement(pod, node=best[1].node["metadata"]["name"])


def _take(room: _Room, pod: Object, *, sign: int = 1) -> None:
    room.pods += sign
    for name, amount in npus(pod).items():
        room.free[name] -= sign * amount


def _obstacle(pod: Object, room: _Room, wanted: Counter[str]) -> str:
    spec, labels = room.node.get("spec") or {}, room.node["metadata"].get("labels") or {}
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    if taints := _untolerated(pod, room.node, "NoSchedule", "NoExecute"):
        return f"node(s) had untolerated taint {{{taints[0]['key']}: {taints[0].get('value', '')}}}"
    short = [name for name, amount in wanted.items() if room.free[name] < amount]
    return f"Insufficient {short[0]}" if short else ""


def _untolerated(pod: Object, node: Object, *effects: str) -> list[Object]:
    taints = (node.get("spec") or {}).get("taints") or []
    tolerations = pod["spec"].get("tolerations") or []
    return [t for t in taints if t["effect"] in effects and not any(_tolerates(tol, t) for tol in tolerations)]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    exists = toleration.get("operator") == "Exists"
    if toleration.get("key") in (None, ""):
        return exists
    return toleration["key"] == taint["key"] and (exists or toleration.get("value", "") == taint.get("value", ""))


def _allocatable(node: Object) -> Counter[str]:
    amounts = node.get("status", {}).get("allocatable") or {}
    return Counter({name: int(amount) for name, amount in amounts.items() if name.startswith(NPU_PREFIX)})


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _group(pod: Object) -> tuple[str, str]:
    annotations: Iterable[tuple[str, str]] = (pod["metadata"].get("annotations") or {}).items()
    return pod["metadata"]["namespace"], dict(annotations).get(GROUP_ANNOTATION, "")
