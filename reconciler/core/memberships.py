"""What most workload plugins share: units that are the pods of one controller, and owners that end by being deleted."""

from __future__ import annotations

from reconciler.core.objects import Owner, Pod
from reconciler.core.recovery import Recovery
from reconciler.core.resources import resource_of
from reconciler.core.units import Index, NoUnit, Unit, ref_of


def of_controller(recovery: Recovery, index: Index) -> tuple[Pod, ...]:
    """The pods of the recovery's controller."""
    controller = recovery.spec.controller
    return () if controller is None else tuple(index.by_controller.get(controller.uid, ()))


def deleted(owner: Owner) -> tuple[str, str] | None:
    """An owner ends by being deleted, and by that alone."""
    if owner.metadata.deletion_timestamp:
        return "owner-deleted", f"{owner.kind} {owner.metadata.name} is being deleted"
    return None


def chain_end(chain: tuple[Owner, ...], index: Index) -> tuple[str, str] | None:
    """One of the controllers is being deleted, or the one above them is gone already: the rest will follow it."""
    for owner in chain:
        if (why := deleted(owner)) is not None:
            return why
    above = chain[-1].metadata.controller if chain else None
    # A kind that we do not watch, or that this cluster does not serve, cannot be seen at all.
    if above is None or above.kind not in index.state.kinds or resource_of(above.api_version, above.kind) is None:
        return None
    return "owner-deleted", f"{above.kind} {above.name} is gone: {chain[-1].kind} {chain[-1].metadata.name} follows it"


def orphan(pod: Pod) -> NoUnit:
    """A pod whose controller cannot be seen: nothing would bring it back."""
    ref = pod.metadata.controller
    name = ref.name if ref else pod.metadata.name
    kind = ref.kind if ref else "controller"
    unit_id = f"{pod.metadata.namespace}/{name}"
    return NoUnit(unit_id, "owner-deleted", f"{kind} {name} does not exist: nothing would bring it back")


def whole_job(
    job: Owner, index: Index, *, size: int, blocked: tuple[str, str] | None, rounds_left: int | None = None
) -> Unit:
    """All pods of a job restart together; `size`, `blocked` and `rounds_left` as in Unit."""
    return Unit(
        id=job.metadata.key,
        namespace=job.metadata.namespace,
        instance="",
        level="Job",
        workload=ref_of(job),
        controller=ref_of(job),
        pods=tuple(index.by_controller.get(job.metadata.uid, ())),
        chain=(job,),
        size=size,
        blocked=blocked,
        rounds_left=rounds_left,
    )


def single_pod(pod: Pod, index: Index) -> Unit | NoUnit:
    """A pod that is an instance of its own: it restarts alone, its controller makes the next one."""
    chain = index.chain(pod.metadata.controller)
    if not chain:
        return orphan(pod)
    top = chain[-1]
    return Unit(
        id=f"{pod.metadata.namespace}/{top.metadata.name}/{pod.metadata.name}",
        namespace=pod.metadata.namespace,
        instance=pod.metadata.name,
        level="Pod",
        workload=ref_of(top),
        controller=ref_of(chain[0]),
        pods=(pod,),
        chain=chain,
        size=1,
        blocked=chain_end(chain, index),
    )
