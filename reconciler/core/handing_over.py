"""Phase Deleting where an operator restarts the unit: mark the pods that are hit, watch, finish only what hangs.

The infer-operator deletes the workload of a pod whose annotation `huawei.com/pod-status` begins with `Unhealthy` and
makes it anew. Either it acts or the warden does, never both: pods that are marked are not deleted by us, and before we
delete any, the mark is taken off. Source: MindCluster infer-operator (annotation and its values).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, Claim, DeletePods, HandOver, Hold, Mark, Victim
from reconciler.core.episode import Episode, overdue, without_cause
from reconciler.core.objects import Pod
from reconciler.core.units import EXTERNAL
from reconciler.workloads import must_stand
from reconciler.workloads.infer_operator import OPERATOR, operator_runs, workload_stands

POD_STATUS = "huawei.com/pod-status"
_UNHEALTHY = "Unhealthy"
_WORDS = {
    "Hardware": "Unhealthy-CardUnhealthy",
    "Node": "Unhealthy-NodeUnhealthy",
    "Software": "Unhealthy-pod-failed",
    "SubHealth": "Unhealthy-SubHealthFault",
}
TAKE_UP_S = 60.0
"""So long after the claim the operator should have begun; it takes a mark up within a second when it is well."""


def handing_over(episode: Episode) -> Iterator[Action | Hold]:
    """The next step of a unit whose method is `external-force` or `external-grace`."""
    status, targets = episode.status, episode.spec.targets
    live = _live(episode)
    if not live:
        deleted = status.times.deleted or episode.stamp
        yield episode.to("Recreating", message="waits for the new pods", deleted=deleted, gone=episode.stamp)
        return
    touched = any(pod.terminating for pod in live) or (status.attempts == 0 and len(live) < len(targets))
    marked = [pod for pod in live if _marked(pod)]
    rebuilt = all(pod.terminating or not workload_stands(pod, episode.index) for pod in live)
    if rebuilt or (touched and (marked or status.reason == "foreign-actor")):
        yield from _taken_up(episode, live)
    elif not marked:
        yield from _unmarked(episode, live, touched=touched)
    elif not episode.causes and not _blind(episode):
        yield _hand_over(episode, [Mark(p.metadata.name, p.metadata.uid, None) for p in marked])
    elif status.reason != "foreign-actor":
        names = ", ".join(pod.metadata.name for pod in marked)
        message = f"handed over to the infer-operator: {names} marked with {POD_STATUS}"
        yield episode.to("Deleting", reason="foreign-actor", message=message)
    else:
        yield from _waiting(episode, marked)


def _unmarked(episode: Episode, live: Sequence[Pod], *, touched: bool) -> Iterator[Action | Hold]:
    state, spec = episode.state, episode.spec
    if not episode.causes and not touched:
        yield from without_cause(episode)
        return
    if not operator_runs(episode.index):
        yield _take_back(episode)
        return
    marks = {
        hit.pod.metadata.uid: Mark(hit.pod.metadata.name, hit.pod.metadata.uid, _WORDS[hit.kind])
        for hit in episode.causes
        if any(pod.metadata.uid == hit.pod.metadata.uid and not pod.terminating for pod in live)
    }
    if not marks:  # what was hit is gone already: what is left of the instance still has to follow
        left = next(pod for pod in live if not pod.terminating)
        marks = {left.metadata.uid: Mark(left.metadata.name, left.metadata.uid, _WORDS[spec.cause.kind])}
    if not state.watch_ok:
        yield Hold(spec.unit, "stale-report", "the view of the cluster is older than 60 s: nothing is handed over")
    elif state.paused:
        yield Hold(spec.unit, "paused", f"would hand it over to the infer-operator; {state.paused}")
    else:
        yield _hand_over(episode, list(marks.values()))


def _waiting(episode: Episode, marked: Sequence[Pod]) -> Iterator[Action | Hold]:
    """Marked, and nothing has been deleted: the operator is given its time, then a person is told."""
    claimed = clock.parse(episode.status.times.claimed) or episode.now.wall
    waited_s = episode.now.wall - claimed
    if waited_s < TAKE_UP_S:
        episode.alarm.ring(episode.now.mono + TAKE_UP_S - waited_s)
        return
    namespace, name = OPERATOR
    if not operator_runs(episode.index):
        yield _hand_over(episode, [Mark(pod.metadata.name, pod.metadata.uid, None) for pod in marked])
        return
    yield Hold(
        episode.spec.unit,
        "foreign-actor",
        f"the infer-operator has not taken it up for {waited_s:.0f} s and the warden does not act beside it: look at "
        f"the log of Deployment {namespace}/{name}, or scale it to 0 and the warden deletes the pods",
    )
    yield from overdue(episode)


def _taken_up(episode: Episode, live: Sequence[Pod]) -> Iterator[Action | Hold]:
    """Somebody deletes the instance. Only pods that hang on a dead node are ours: they keep their names for ever."""
    state = episode.state
    victims = tuple(
        Victim(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, 0)
        for pod in live
        if pod.terminating and pod.metadata.deletion_grace_period_seconds != 0  # 0: forced, a finalizer holds it
        if pod.node and (verdict := episode.verdicts.get(pod.node)) is not None and verdict.dead
    )
    if episode.status.times.deleted is None:
        message = "the infer-operator restarts it"
        yield episode.to("Deleting", reason="foreign-actor", message=message, deleted=episode.stamp)
    elif victims and state.watch_ok and not state.paused:
        nodes = episode.isolated_nodes(tuple(target.node for target in episode.spec.targets))
        yield DeletePods(episode.recovery, victims, nodes, must_stand(episode.recovery))
    else:
        yield from overdue(episode)


def _take_back(episode: Episode) -> Claim:
    """No operator, no mark: the warden deletes the pods itself, and the journal says so first."""
    spec = msgspec.structs.replace(episode.spec, method=episode.spec.method.removeprefix(EXTERNAL))
    message = "the infer-operator does not run: the warden deletes the pods"
    return Claim(episode.recovery, spec, msgspec.structs.replace(episode.status, reason="", message=message))


def _hand_over(episode: Episode, marks: Sequence[Mark]) -> HandOver:
    nodes: tuple[str, ...] = ()  # a mark is taken off wherever it stands
    if any(mark.value is not None for mark in marks):
        nodes = episode.isolated_nodes(tuple(target.node for target in episode.spec.targets))
    return HandOver(episode.recovery, tuple(marks), nodes, must_stand(episode.recovery))


def _live(episode: Episode) -> list[Pod]:
    """Targets that still exist. The workload above them may be gone already: the operator deletes that first."""
    pods = episode.state.pods
    found = ((pods.get(f"{episode.namespace}/{target.pod}"), target.uid) for target in episode.spec.targets)
    return [pod for pod, uid in found if pod is not None and pod.metadata.uid == uid]


def _marked(pod: Pod) -> bool:
    return pod.metadata.annotations.get(POD_STATUS, "").startswith(_UNHEALTHY)


def _blind(episode: Episode) -> bool:
    return any((v := episode.verdicts.get(name)) is None or v.blind for name in episode.spec.cause.nodes)
