"""What the device plugin offers on a node: the kubelet's capacity counts all NPUs, allocatable the healthy ones.

Capacity alone does not tell of a chip that was lost: a plugin that registers again counts only what it still finds.
So the most a node has ever offered is kept on the node itself, in an annotation: it outlives every leader, and ends
with the node object, so that a machine which joins under an old name begins anew.

Source: Kubernetes device manager. After a kubelet restart both are 0 until the plugin registers again; a node that
never had an NPU resource has no such key at all, and one whose plugin was replaced has other keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from reconciler.core.objects import Node
from reconciler.core.quantities import NPU_PREFIX, npus
from shared.names import OFFERED_ANNOTATION

MAX_NPUS = 100_000
"""No node has more, whatever its annotation says."""


def is_npu_node(node: Node) -> bool:
    return any(name.startswith(NPU_PREFIX) for name in (*node.status.capacity, *node.status.allocatable))


def offered(node: Node) -> int:
    """NPUs that the scheduler may give out."""
    return sum(npus(node.status.allocatable).values())


def history(node: Node) -> dict[str, int]:
    """The most of each NPU resource that the node has offered, as its annotation says; empty where it says nothing.

    A resource of which nothing is left while there is another one (a plugin under a new name, another partitioning)
    is no loss and is left out: the kubelet keeps the old name for a while, with 0.
    """
    text = node.metadata.annotations.get(OFFERED_ANNOTATION)
    try:
        kept = msgspec.json.decode(text, type=dict[str, int]) if text else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}  # edited by hand: begun anew
    counted = npus(node.status.capacity)
    known = counted.keys() or node.status.capacity.keys()
    return {name: n for name, n in kept.items() if name in known and 0 < n <= MAX_NPUS}


def new_history(node: Node) -> Mapping[str, int] | None:
    """What the annotation has to say and does not yet; None = it is right."""
    kept, now = history(node), npus(node.status.allocatable)
    most = {name: max(kept.get(name, 0), now.get(name, 0)) for name in sorted(kept.keys() | now.keys())}
    return most if most != kept else None


def present(node: Node) -> int:
    """NPUs that the node should offer: what its kubelet counts, and never less than it has offered before."""
    kept, counted = history(node), npus(node.status.capacity)
    return sum(max(kept.get(name, 0), counted.get(name, 0)) for name in kept.keys() | counted.keys())


def missing(node: Node) -> int:
    """NPUs that the plugin has withdrawn, 0 on a node that offers all it ever had."""
    return max(0, present(node) - offered(node))


def withdrawn(node: Node, faulty: Collection[int], seen: Collection[int]) -> bool:
    """Whether the plugin has taken the faulty chips from the scheduler, so that what is left on offer is healthy.

    faulty, seen: physical ids of the faulty chips, and of all that the agent sees. Chips that have left the node
    altogether are missing, too, and say nothing of those that are there.
    """
    left = max(0, present(node) - len({*seen, *faulty})) if seen else 0
    return 0 < len(faulty) <= missing(node) - left


def not_back(node: Node) -> str | None:
    """Why the node does not offer all its NPUs yet; None = it does, or it has no device plugin that could say."""
    if not is_npu_node(node):
        return None
    count, all_ = offered(node), present(node)
    if all_ == 0 or (count == 0 and not npus(node.status.capacity)):
        return "the device plugin has not registered again: no NPU is on offer"
    if count >= all_:
        return None
    before = sum(npus(node.status.capacity).values()) < all_
    return f"the device plugin offers {count} of {all_} NPUs{', as many as it has offered before' if before else ''}"
