"""How far a drill may reach: never to the last Ready instance of a role, and to no pod but the one that is named."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.core.budget import ready_beside
from reconciler.core.drills import Request
from reconciler.core.objects import Pod
from reconciler.core.precedence import rank_of_unit
from reconciler.core.state import State
from reconciler.core.triggers import chips_of
from reconciler.core.units import Index, Unit, method_of
from reconciler.workloads import unit_of
from shared.model import NODE
from shared.names import DRILL_CONDITION


def has_ended(state: State, request: Request) -> bool:
    """Whether the pod has Failed, by a drill: what follows is the reconciler's, whatever else comes up."""
    pod = state.pods.get(request.pod)
    return pod is not None and pod.metadata.uid == request.uid and pod.condition(DRILL_CONDITION) is not None


def no_such_pod(state: State, node: str, request: Request) -> str | None:
    """Why the pod that is to fail cannot: it is not there, another one by now, elsewhere, or has ended.

    The one that Failed since is what the drill is about.
    """
    pod = state.pods.get(request.pod)
    if pod is None or pod.metadata.uid == request.uid:
        if pod is not None and pod.node != node:
            return f"pod {request.pod} runs on {pod.node}, not on {node}"
        return None  # gone: replaced by now, or one that this leader does not see
    return f"pod {request.pod} is another one by now (UID {pod.metadata.uid})"


def last_of_its_role(state: State, node: str, request: Request) -> str | None:
    """The first instance that a real drill would take although no other of its role serves."""
    if request.code in state.network_codes or (request.chip == NODE and not request.pod):
        return None  # such faults restart nothing
    index = Index(state)
    for pod in _hit(state, node, request, index):
        unit = unit_of(pod, index)
        if not isinstance(unit, Unit) or method_of(unit, index).name is None:
            continue  # left alone whatever comes
        role, others = ready_beside(state, index, unit)
        kind = rank_of_unit(unit)[0]  # MindIE calls its prefill and its decode instances alike
        if not any(rank_of_unit(other)[0] == kind for other in others):
            where = f"role {role}" if role else "its service"
            return f"{unit.id} is the last Ready instance of {where}, pod {pod.metadata.key}"
    return None


def _hit(state: State, node: str, request: Request, index: Index) -> Iterator[Pod]:
    if request.pod:
        pod = state.pods.get(request.pod)
        yield from [pod] if pod is not None and pod.ready else []
        return
    for pod in index.by_node.get(node, ()):
        held = chips_of(pod, state.heard.get(node))
        if pod.ready and (held is None or request.chip in held):
            yield pod
