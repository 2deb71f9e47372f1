"""Phases Recreating and WaitingForCapacity: follow the new pods until all are Ready."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reconciler.core.actions import Action, Claim, Hold, Progress
from reconciler.core.deleting import victim_of
from reconciler.core.episode import Episode
from reconciler.core.hanging import finish_hanging
from reconciler.core.proving import proven
from reconciler.core.recovery import Target
from reconciler.core.replacements import Replacements, replacements_of

MAX_LANDED_WRONG = 3


def recreating(episode: Episode) -> Iterator[Action | Hold]:
    new = replacements_of(episode.recovery, episode.index)
    stuck = _stuck(episode, new)
    if stuck is not None:
        yield episode.to("Escalated", reason="escalated", message=stuck)
        return
    struck_again = _struck_again(episode, new)
    if struck_again is not None:
        yield struck_again
        if not isinstance(struck_again, Hold):
            return
    if (finish := finish_hanging(episode)) is not None:
        yield finish
        return
    times: dict[str, str | None] = {}
    if new.complete and episode.status.times.recreated is None:
        times["recreated"] = episode.stamp
    if new.bound and episode.status.times.bound is None:
        times["bound"] = episode.stamp
    if new.ready:
        yield from proven(episode, new, times)
        return
    if episode.status.times.ready is not None:
        times["ready"] = None  # all were Ready, and are not any more
    if not new.pods and (why := _not_wanted(episode)) is not None:
        yield episode.to("Superseded", reason="rollout", message=why)
        return
    phase = "WaitingForCapacity" if new.starved else "Recreating"
    if times or phase != episode.status.phase:
        reason = "capacity" if new.starved else ""
        yield episode.to(phase, reason=reason, message=_what_is_missing(episode, new), **times)
        return
    if new.starved:
        yield Hold(episode.spec.unit, "capacity", new.text)


def _what_is_missing(episode: Episode, new: Replacements) -> str:
    """How far the new pods are; where they find no room, also how many NPUs which of them need."""
    waiting = [pod for pod in new.pods if not pod.node]
    short = episode.index.capacity.shortage(waiting, ()) if new.starved and waiting else None
    return f"{new.text}; {short}" if short else new.text


def _not_wanted(episode: Episode) -> str | None:
    """Why no new pod will come: its controller has as many as it wants. A rollout or a scale-down has overtaken us."""
    ref = episode.spec.controller
    owner = episode.state.owners.get(ref.uid) if ref is not None else None
    if owner is None or episode.spec.level != "Pod":
        return None
    wanted = owner.spec.get("replicas")
    pods = [pod for pod in episode.index.by_controller.get(owner.metadata.uid, ()) if not pod.terminating]
    if not isinstance(wanted, int) or len(pods) < wanted:
        return None
    return f"{owner.kind} {owner.metadata.name} wants {wanted} pods and has them: it was rolled out or scaled meanwhile"


def _stuck(episode: Episode, new: Replacements) -> str | None:
    """Why a pod-level restart has failed and the whole job must follow; None while it may still come back.

    Missing capacity alone is no reason: the other pod serves, and a job that restarts would not be placed either.
    """
    if not _escalates(episode) or new.ready or not new.pods:
        return None
    pod, policy = new.pods[0], episode.state.policy.reschedule
    if pod.failed:
        return f"{pod.metadata.name} failed again"
    if new.starved:
        return None
    since = episode.state.memory.waiting_since.get((pod.metadata.uid, bool(pod.node)))
    limit_s = policy.pod_ready_timeout_s if pod.node else policy.pod_bind_timeout_s
    if since is None:
        return None
    left_s = limit_s - (episode.now.mono - since)
    if left_s > 0:
        episode.alarm.ring(episode.now.mono + left_s)
        return None
    return f"{pod.metadata.name} is {'bound, but not Ready' if pod.node else 'not bound'} after {limit_s:.0f} s"


def _escalates(episode: Episode) -> bool:
    """Whether a larger unit stands behind this one: then the unit's id names the whole and not the pod."""
    return episode.spec.level == "Pod" and not episode.spec.unit.endswith(f"/{episode.spec.instance}")


def _struck_again(episode: Episode, new: Replacements) -> Action | Hold | None:
    """A replacement is hit itself: one that has landed wrong is deleted alone; anything else is a new episode."""
    mine = {pod.metadata.uid: pod for pod in new.pods}
    hits = [hit for hit in episode.hits if hit.wait is None and hit.pod.metadata.uid in mine]
    if not hits:
        return None
    serving = any(pod.ready for pod in new.pods)
    hard = [hit for hit in hits if hit.kind in ("Hardware", "Node") and not mine[hit.pod.metadata.uid].ready]
    if len(hard) == len(hits) and not serving:
        pods = list({hit.pod.metadata.uid: mine[hit.pod.metadata.uid] for hit in hard}.values())
        if episode.status.attempts >= MAX_LANDED_WRONG:
            message = f"{pods[0].metadata.name} came back on faulty hardware {MAX_LANDED_WRONG} times: left there"
            return Hold(episode.spec.unit, "capacity", f"{message}; does it tolerate the taint?")
        if episode.unit is not None and episode.unit.blocked is not None and episode.unit.rounds_left == 0:
            ends = episode.to("Exhausted", reason=episode.unit.blocked[0], message=episode.unit.blocked[1])
            stay = tuple(Target(pod.metadata.name, pod.metadata.uid, pod.node) for pod in new.pods)
            return Progress(ends.recovery, msgspec.structs.replace(ends.status, replacements=stay))
        victims = [victim for pod in pods if (victim := victim_of(episode, pod)) is not None]
        nodes = episode.isolated_nodes(tuple(pod.node for pod in pods))
        if not victims or not episode.state.watch_ok or episode.state.paused:
            return None
        status = msgspec.structs.replace(episode.status, attempts=episode.status.attempts + 1, phase="Deleting")
        targets = tuple(Target(p.metadata.name, p.metadata.uid, p.node) for p in pods)
        spec = msgspec.structs.replace(episode.spec, targets=(*episode.spec.targets, *targets))
        if any(episode.state.memory.tainted_since.get(name) is None for name in nodes):
            return None
        return Claim(episode.recovery, spec, status)
    return episode.to("Superseded", reason="new-fault", message=f"a replacement is hit: {hits[0].fault}")
