"""What the device plugin offers on a node: the kubelet's capacity counts all NPUs, allocatable the healthy ones.

Source: Kubernetes device manager. After a kubelet restart both are 0 until the plugin registers again; a node that
never had an NPU resource has no such key at all.
"""

from __future__ import annotations

from reconciler.core.objects import Node
from reconciler.core.quantities import NPU_PREFIX, npus


def is_npu_node(node: Node) -> bool:
    return any(name.startswith(NPU_PREFIX) for name in (*node.status.capacity, *node.status.allocatable))


def withdrawn(node: Node, chips: int) -> bool:
    """Whether the plugin has taken so many chips from the scheduler: what is left on offer is healthy."""
    return 0 < chips <= sum(npus(node.status.capacity).values()) - sum(npus(node.status.allocatable).values())


def not_back(node: Node) -> str | None:
    """Why the node does not offer all its NPUs yet; None = it does, or it has no device plugin that could say."""
    if not is_npu_node(node):
        return None
    offered, present = sum(npus(node.status.allocatable).values()), sum(npus(node.status.capacity).values())
    if present == 0:
        return "the device plugin has not registered again: no NPU is on offer"
    return f"the device plugin offers {offered} of {present} NPUs" if offered < present else None
