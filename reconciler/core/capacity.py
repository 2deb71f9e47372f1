"""Is there room elsewhere: free NPUs by node, as a scheduler would count them.

Looked at: Ready, cordon, taints and tolerations, nodeSelector, required node affinity, NPU resources (`huawei.com/*`).
Not looked at: CPU, memory, spreading, pod affinity, queues. So "no room" is nearly certain (pods of different sizes are
packed the largest first, not in the best way there is), "room" is a good guess.
Sources: Kubernetes API v1.37 (TaintToleration, NodeAffinity, NodeResourcesFit).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from reconciler.core.objects import Node, NodeSelectorTerm, Pod, PodSpec, Requirement, Taint, Toleration
from reconciler.core.quantities import npus
from reconciler.core.state import State

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_ENDED = ("Succeeded", "Failed")


def requests_of(pod: Pod) -> Counter[str]:
    """NPUs a pod asks for, by resource name, over all its containers."""
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        wanted = container.resources.requests or container.resources.limits or {}
        total.update(npus(wanted))
    return total


def tolerates(tolerations: Iterable[Toleration] | None, taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint (Kubernetes' rule; an empty key with Exists matches all)."""
    for toleration in tolerations or ():
        if toleration.effect and toleration.effect != taint.effect:
            continue
        exists = toleration.operator == "Exists"
        if not toleration.key:
            if exists:
                return True
        elif toleration.key == taint.key and (exists or (toleration.value or "") == taint.value):
            return True
    return False


def admits(node: Node, spec: PodSpec) -> bool:
    """Whether a scheduler may put such a pod on the node at all, room aside."""
    if not node.ready or node.spec.unschedulable:
        return False
    taints = [taint for taint in node.spec.all_taints if taint.effect in _KEEPS_AWAY]
    if not all(tolerates(spec.tolerations, taint) for taint in taints):
        return False
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    terms = spec.required_node_terms
    return not terms or any(_term_holds(term, node) for term in terms)


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    by_label = all(_holds(need, node.metadata.labels) for need in term.match_expressions or ())
    return by_label and all(_holds(need, {"metadata.name": node.metadata.name}) for need in term.match_fields or ())


def _holds(need: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(need.key)
    match need.operator:
        case "In":
            return value is not None and value in (need.values or ())
        case "NotIn":
            return value is None or value not in (need.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:  # Gt, Lt and what comes after: never a reason to say that there is no room
            return True


class Capacity:
    """Free NPUs of one snapshot. Building it costs one pass over pods and nodes; each question then looks at few."""

    def __init__(self, state: State) -> None:
        self._nodes = state.nodes
        self._free: dict[str, Counter[str]] = {
            name: Counter(npus(node.status.allocatable)) for name, node in state.nodes.items()
        }
        for pod in state.pods.values():
            if pod.node in self._free and pod.status.phase not in _ENDED:
                self._free[pod.node].subtract(requests_of(pod))
        self._candidates: dict[tuple[bytes, str], list[str]] = {}

    def shortage(self, pods: Sequence[Pod], without: Collection[str]) -> str | None:
        """Why these pods cannot all be placed anew while the nodes `without` take no work; None when they can.

        What the pods hold now counts as free: they are deleted before the new ones come.
        """
        return self._place(pods, without)[1]

    def reserve(self, pods: Sequence[Pod], without: Collection[str]) -> None:
        """Take the room that these pods will need from what others are told; as far as there is any."""
        for name, amounts in self._place(pods, without)[0].items():
            self._free[name].subtract(amounts)
        self._candidates.clear()

    def _place(self, pods: Sequence[Pod], without: Collection[str]) -> tuple[Mapping[str, Counter[str]], str | None]:
        """What they would take beyond what they hold, by node; and why not all of them find a place."""
        freed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in pods:
            if pod.node in self._free and pod.status.phase not in _ENDED:
                freed[pod.node].update(requests_of(pod))
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        # The largest first: small ones still fit into what is left.
        for placed, pod in enumerate(sorted(pods, key=lambda p: (-requests_of(p).total(), p.metadata.name))):
            wanted = requests_of(pod)
            if not self._take(pod, wanted, freed, taken, without):
                need = " and ".join(f"{count} {name}" for name, count in sorted(wanted.items())) or "a place"
                text = f"room for {placed} of {len(pods)} pods elsewhere, the next needs {need}"
                return {name: taken[name] - freed[name] for name in taken}, text
        return {name: taken[name] - freed[name] for name in taken}, None

    def _take(
        self,
        pod: Pod,
        wanted: Counter[str],
        freed: Mapping[str, Counter[str]],
        taken: defaultdict[str, Counter[str]],
        without: Collection[str],
    ) -> bool:
        main = max(wanted, key=lambda name: wanted[name], default="")
        own = [name for name in freed if name not in without and admits(self._nodes[name], pod.spec)]
        for name in (*own, *self._ordered(pod.spec, main)):
            if name in without:
                continue
            if name not in freed and self._free[name][main] < wanted[main]:
                return False  # the others have less
            room = self._free[name] + freed[name] if name in freed else self._free[name]
            if all(room[kind] - taken[name][kind] >= count for kind, count in wanted.items()):
                taken[name].update(wanted)
                return True
        return False

    def _ordered(self, spec: PodSpec, resource: str) -> list[str]:
        """The nodes that admit such a pod, those with most of the resource free first."""
        key = msgspec.json.encode((spec.node_selector, spec.affinity, spec.tolerations), order="sorted"), resource
        if key not in self._candidates:
            fitting = [name for name, node in self._nodes.items() if admits(node, spec)]
            self._candidates[key] = sorted(fitting, key=lambda name: (-self._free[name][resource], name))
        return self._candidates[key]
