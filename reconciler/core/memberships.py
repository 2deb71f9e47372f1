"""What most workload plugins share: units that are the pods of one controller, and owners that end by being deleted."""

from __future__ import annotations

from reconciler.core.objects import Owner, Pod, Recovery
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


def chain_end(chain: tuple[Owner, ...]) -> tuple[str, str] | None:
    return next((why for owner in chain if (why := deleted(owner)) is not None), None)


def orphan(pod: Pod) -> NoUnit:
    """A pod whose controller cannot be seen: nothing would bring it back."""
    ref = pod.metadata.controller
    name = ref.name if ref else pod.metadata.name
    kind = ref.kind if ref else "controller"
    unit_id = f"{pod.metadata.namespace}/{name}"
    return NoUnit(unit_id, "owner-deleted", f"{kind} {name} does not exist: nothing would bring it back")


def whole_job(job: Owner, index: Index, *, size: int, blocked: tuple[str, str] | None) -> Unit:
    """All pods of a job restart together; `size` and `blocked` as in Unit."""
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
        blocked=chain_end(chain),
    )
