"""The phases of an open Recovery: Isolating -> Deleting -> Recreating (WaitingForCapacity) -> Recovered, and its ends.

The Recovery object is the only memory between two plans. Whoever plans next, this leader or another, goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, Claim, Hold, Progress
from reconciler.core.deleting import deleting
from reconciler.core.episode import Episode, overdue, without_cause
from reconciler.core.episodes import Struck
from reconciler.core.evidence import evidence_of
from reconciler.core.foreign import stand_down
from reconciler.core.judge import Verdict, few
from reconciler.core.objects import Pod
from reconciler.core.recovery import Cause, Recovery, Target
from reconciler.core.recreating import recreating
from reconciler.core.state import State
from reconciler.core.triggers import chips_of
from reconciler.core.units import Index, Unit, episode_key, hand_of, method_of
from reconciler.workloads import ended, must_stand, unit_of
from shared.model import Instant


def plan_open(
    state: State,
    recovery: Recovery,
    struck: Struck | None,
    larger: Recovery | None,
    verdicts: Mapping[str, Verdict],
    index: Index,
    now: Instant,
    alarm: clock.Alarm,
) -> Iterator[Action | Hold]:
    """The next step of one open recovery, at most one action: everything else waits for what it changes.

    larger: the open recovery of the whole that this unit is a part of, if there is one: it takes over.
    """
    episode = Episode(state, recovery, struck, verdicts, index, now, alarm)
    found = list(_next(episode, larger))
    if not any(isinstance(item, (Claim, Progress)) for item in found):
        yield from overdue(episode)
    yield from found


def _next(episode: Episode, larger: Recovery | None) -> Iterator[Action | Hold]:
    state, recovery = episode.state, episode.recovery
    end = _ended(episode)
    if end is not None:
        yield end
    elif larger is not None and larger is not recovery:
        yield episode.to("Superseded", reason="escalated", message=f"{larger.metadata.name} restarts the whole")
    elif recovery.status.phase in ("Pending", "Isolating"):
        yield from _isolating(episode)
    elif recovery.status.holder != state.holder:
        # An episode of another leader: claimed again before anything is done for it.
        yield Claim(recovery, recovery.spec, msgspec.structs.replace(recovery.status, holder=state.holder))
    elif recovery.status.phase == "Deleting":
        yield from deleting(episode)
    else:
        yield from recreating(episode)


def _ended(episode: Episode) -> Progress | None:
    """Whether the episode has lost its object: the owner is gone, being deleted, or creates no pods any more."""
    for ref in must_stand(episode.recovery):
        if episode.state.kinds and ref.kind not in episode.state.kinds:
            continue
        owner = episode.state.owners.get(ref.uid)
        if owner is None:
            return episode.to("Superseded", reason="owner-deleted", message=f"{ref.kind} {ref.name} is gone")
        why = ended(owner)
        if why is not None:
            phase = "OwnerTerminal" if why[0] == "owner-terminal" else "Superseded"
            return episode.to(phase, reason=why[0], message=why[1])
    return None


def _isolating(episode: Episode) -> Iterator[Action | Hold]:
    state, spec = episode.state, episode.spec
    pods = episode.pods_now()
    causes = episode.causes
    if not causes and not episode.escalation_stands(pods):
        yield from without_cause(episode)
        return
    if not pods:
        yield episode.to("Superseded", reason="owner-deleted", message="no pod of the unit is left to restart")
        return
    unit = episode.unit or _unit_of(episode, pods)
    if unit is not None and (allowed := method_of(unit, episode.index)).name is None:
        yield episode.to("Aborted", reason=allowed.reason, message=f"nothing was deleted: {allowed.message}")
        return
    if (foreign := stand_down(state, pods)) is not None:
        yield episode.to("Aborted", reason=foreign[0], message=f"nothing was deleted: {foreign[1]}")
        return
    nodes = episode.isolated_nodes(tuple(pod.node for pod in pods))
    settled_at = 0.0
    for name in nodes:
        since = state.memory.tainted_since.get(name)
        if since is None:
            yield Hold(spec.unit, "isolating", f"waits for the taint on {name}: nothing is deleted without it")
            return
        settled_at = max(settled_at, since + state.policy.reschedule.settle_s)
    if episode.now.mono < settled_at:
        episode.alarm.ring(settled_at)
        return
    targets = tuple(_target(state, pod) for pod in pods)
    cause, charged = spec.cause, episode.status.charged
    if causes:
        hard = [hit for hit in causes if hit.kind != "Software"]
        where = sorted({*spec.cause.nodes, *(hit.node for hit in hard if hit.node)})
        cause = Cause(hard[0].kind if hard else "Software", few(sorted({hit.fault for hit in causes})), tuple(where))
        charged = 0 if hard else charged
    # The operator may have come or gone since the episode was opened.
    method = spec.method if unit is None else hand_of(unit, spec.method)
    evidence = evidence_of(state, cause.nodes, targets)
    new_spec = msgspec.structs.replace(spec, targets=targets, cause=cause, method=method, evidence=evidence)
    times = msgspec.structs.replace(
        episode.status.times, tainted=episode.stamp if nodes else None, claimed=episode.stamp
    )
    status = msgspec.structs.replace(
        episode.status,
        phase="Deleting",
        reason="",
        message=f"deletes {len(targets)} pods",
        holder=state.holder,
        charged=charged,
        times=times,
        conditions=(),
    )
    yield Claim(episode.recovery, new_spec, status)


def _unit_of(episode: Episode, pods: Iterable[Pod]) -> Unit | None:
    """The episode's unit by its pods, where nothing hits them: a job that follows a pod which does not come back."""
    spec = episode.spec
    key = episode_key(spec.unit, spec.level, spec.instance)
    for pod in pods:
        found = unit_of(pod, episode.index)
        parts = (found, found.beyond) if isinstance(found, Unit) else ()
        if (unit := next((part for part in parts if part is not None and part.key == key), None)) is not None:
            return unit
    return None


def _target(state: State, pod: Pod) -> Target:
    """The pod as it is deleted. Its chips are asked for later, when nobody can see any more which it held."""
    held = chips_of(pod, state.heard.get(pod.node) if pod.node else None)
    chips = None if held is None else tuple(sorted(held))
    return Target(pod.metadata.name, pod.metadata.uid, pod.node, pod.metadata.labels.get("version"), chips)
