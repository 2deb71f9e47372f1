"""New pods of a unit that somebody else has deleted and that hang on a dead node: they are finished, uncharged.

Such a pod keeps its name, so nothing takes its place until it is forced. While it was not terminating it would have
been a replacement that is hit again; terminating, it is no replacement any more, only in the way.
"""

from __future__ import annotations

import msgspec

from reconciler.core.actions import Claim
from reconciler.core.episode import Episode
from reconciler.core.objects import Pod
from reconciler.core.recovery import Target
from reconciler.workloads import members


def finish_hanging(episode: Episode) -> Claim | None:
    """Back to Deleting with the hanging pods as further targets; None = nothing hangs, or it cannot be said."""
    state, pods = episode.state, _hanging(episode)
    if not pods or not state.watch_ok or state.paused:
        return None
    if any(state.memory.tainted_since.get(n) is None for n in episode.isolated_nodes(tuple(p.node for p in pods))):
        return None
    more = tuple(Target(pod.metadata.name, pod.metadata.uid, pod.node) for pod in pods)
    names = ", ".join(target.pod for target in more)
    return Claim(
        episode.recovery,
        msgspec.structs.replace(episode.spec, targets=(*episode.spec.targets, *more)),
        msgspec.structs.replace(
            episode.status, phase="Deleting", reason="", message=f"{names} hangs terminating on a dead node: forced"
        ),
    )


def _hanging(episode: Episode) -> list[Pod]:
    old = {target.uid for target in episode.spec.targets}
    names = {target.pod for target in episode.spec.targets}
    return [
        pod
        for pod in members(episode.recovery, episode.index)
        if pod.terminating
        and pod.metadata.deletion_grace_period_seconds != 0  # 0: forced already, a finalizer holds it
        and pod.metadata.uid not in old
        and (episode.spec.level != "Pod" or pod.metadata.name in names)
        and pod.node is not None
        and (verdict := episode.verdicts.get(pod.node)) is not None
        and verdict.dead
    ]
