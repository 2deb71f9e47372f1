"""Phase Deleting: which old pods still live, and the delete each of them needs now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from reconciler.core import clock
from reconciler.core.actions import Action, DeletePods, Hold, Victim
from reconciler.core.episode import Episode, without_cause
from reconciler.core.foreign import stand_down
from reconciler.core.handing_over import handing_over
from reconciler.core.objects import Pod
from reconciler.core.state import State
from reconciler.core.units import EXTERNAL
from reconciler.workloads import members, must_stand


def deleting(episode: Episode) -> Iterator[Action | Hold]:
    if episode.spec.method.startswith(EXTERNAL):
        yield from handing_over(episode)
        return
    state, spec = episode.state, episode.spec
    # Only what belongs to the unit: a target may have been edited by hand, or its controller have let the pod go.
    mine = {pod.metadata.uid for pod in members(episode.recovery, episode.index)}
    live: list[Pod] = []
    for target in spec.targets:
        pod = state.pods.get(f"{episode.namespace}/{target.pod}")
        if pod is not None and pod.metadata.uid == target.uid and target.uid in mine:
            live.append(pod)
    if not live:
        deleted = episode.status.times.deleted or episode.stamp
        yield episode.to("Recreating", message="waits for the new pods", deleted=deleted, gone=episode.stamp)
        return
    untouched = len(live) == len(spec.targets) and not any(pod.terminating for pod in live)
    caused = bool(episode.causes) or episode.escalation_stands(live)
    if untouched and episode.status.times.deleted is None and not caused:
        yield from without_cause(episode)
        return
    if untouched and (foreign := stand_down(state, live)) is not None:
        yield episode.to("Aborted", reason=foreign[0], message=f"nothing was deleted: {foreign[1]}")
        return
    victims = [victim for pod in live if (victim := victim_of(episode, pod)) is not None]
    if victims and not state.watch_ok:
        yield Hold(spec.unit, "stale-report", "the view of the cluster is older than 60 s: nothing is deleted from it")
    elif victims and state.paused:
        yield Hold(spec.unit, "paused", f"would delete {len(victims)} pods; {state.paused}")
    elif victims:
        nodes = episode.isolated_nodes(tuple(target.node for target in spec.targets))
        yield DeletePods(episode.recovery, tuple(victims), nodes, must_stand(episode.recovery))
    elif episode.status.times.deleted is None:
        yield episode.to("Deleting", message="the old pods are terminating", deleted=episode.stamp)


def rationed(state: State, items: Iterable[Action | Hold], alarm: clock.Alarm) -> Iterator[Action | Hold]:
    """The plan within the deletes of a minute: units in the plan's order, each whole; the rest waits behind the first
    that does not fit.

    Half a unit serves nobody. Only one that has more pods than a minute allows, or is half deleted, takes what is left.
    An action that is still at its deletes has had its share from the moment it began.
    """
    limit, running = state.policy.budget.deletes_per_min, state.memory.deleting
    room = limit - len(state.memory.deletes) - sum(running.values())
    for item in items:
        if not isinstance(item, DeletePods) or item.key in running:
            yield item
            continue
        asked, pods = len(item.victims), len(item.recovery.spec.targets)
        if asked > room and state.memory.deletes:
            alarm.ring(state.memory.deletes[0] + 60)
        if asked <= room:
            room -= asked
            yield item
        elif room > 0 and (asked < pods or pods > limit):
            yield dataclasses.replace(item, victims=item.victims[:room])
            room = 0
        else:
            room = 0
            yield Hold(item.recovery.spec.unit, "budget", f"{limit} pods a minute are deleted: the next ones wait")


def victim_of(episode: Episode, pod: Pod) -> Victim | None:
    """The delete a pod needs now: its first, a shorter one, or (None) only time."""
    policy, now = episode.state.policy.reschedule, episode.now
    verdict = episode.verdicts.get(pod.node) if pod.node else None
    nobody_home = verdict is not None and verdict.dead
    meta = pod.metadata
    first_grace = 0 if nobody_home else 1 if episode.spec.method == "force" else None
    if not pod.terminating:
        return Victim(meta.namespace, meta.name, meta.uid, first_grace)
    if meta.deletion_grace_period_seconds == 0:
        return None  # forced already: what still holds it is a finalizer, and its owner's to take off
    if nobody_home:
        # Nobody ends the process on a dead node: only grace 0 frees the name for the replacement.
        return Victim(meta.namespace, meta.name, meta.uid, 0)
    given = meta.deletion_grace_period_seconds or 0
    if episode.spec.method == "force" and given > 1:
        return Victim(meta.namespace, meta.name, meta.uid, 1)
    patience = policy.force_after_s if episode.spec.method == "force" else policy.grace_over_time_s
    waited = now.mono - episode.state.memory.ending_since.get(meta.uid, now.mono)
    if waited >= patience:
        return Victim(meta.namespace, meta.name, meta.uid, 0)
    episode.alarm.ring(now.mono + patience - waited)
    return None
