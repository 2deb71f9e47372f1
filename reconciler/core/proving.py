"""The last step of a recovery: all pods are Ready, and where the job has a rank table it speaks of these pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, Hold, Progress
from reconciler.core.episode import Episode
from reconciler.core.objects import Condition
from reconciler.core.publishing import publication_of
from reconciler.core.ranktable import OWNER_KIND, PATIENCE_S, PREFIX, RankTable, unlabelled, unseen, verify
from reconciler.core.recovery import Target
from reconciler.core.replacements import Replacements

UNVERIFIED, UNLABELLED, PUBLISHED = "RankTableUnverified", "RankTableUnlabelled", "RankTablePublished"
UNSEEN = "RankTableUnseen"
"""Conditions of a Recovered recovery: the table was waited for in vain; ClusterD cannot use it; the service's table,
which the warden makes, lists the new pods; no table of the job can be seen, whether it has one or not."""


def proven(episode: Episode, new: Replacements, times: Mapping[str, str | None]) -> Iterator[Action | Hold]:
    """Recovered, or what is still waited for. An operator that never writes its table holds nothing up for ever."""
    status, now = episode.status, episode.now
    ready = status.times.ready or episode.stamp
    conditions = [c for c in status.conditions if c.type != "Overdue"]
    message = f"all {len(new.pods)} pods are Ready"
    table = rank_table_of(episode)
    controller = episode.spec.controller.uid if episode.spec.controller is not None else ""
    pods = [pod for pod in episode.index.by_controller.get(controller, ()) if not pod.terminating]
    if table is not None:
        check = verify(table, pods)
        if check.verdict != "complete":
            left_s = PATIENCE_S[check.verdict] - (now.wall - (clock.parse(ready) or now.wall))
            if left_s > 0:
                episode.alarm.ring(now.mono + left_s)
                yield from _waits(episode, f"{message}; {check.message}", {**times, "ready": ready})
                return
            conditions.append(_condition(episode, UNVERIFIED, check.verdict, check.message))
            message = f"{message}; not verified: {check.message}"
        if (why := unlabelled(table)) is not None:
            conditions.append(_condition(episode, UNLABELLED, "labels", why))
    elif episode.spec.workload.kind == OWNER_KIND and any(pod.npus for pod in pods):
        conditions.append(_condition(episode, UNSEEN, "label", unseen(episode.spec.workload.name)))
    if (published := publication_of(episode.state, episode.state.owners.get(controller), pods)) is not None:
        left_s = PATIENCE_S["stale"] - (now.wall - (clock.parse(ready) or now.wall))
        if not published.done and left_s > 0:
            episode.alarm.ring(now.mono + left_s)
            yield from _waits(episode, f"{message}; {published.message}", {**times, "ready": ready})
            return
        kind, reason = (PUBLISHED, "Published") if published.done else (UNVERIFIED, "unpublished")
        conditions.append(_condition(episode, kind, reason, published.message))
    progress = episode.to("Recovered", reason="", message=message, **{**times, "ready": ready})
    done = tuple(Target(p.metadata.name, p.metadata.uid, p.node) for p in new.pods)
    finished = msgspec.structs.replace(progress.status, replacements=done, conditions=tuple(conditions))
    yield Progress(progress.recovery, finished)


def rank_table_of(episode: Episode) -> RankTable | None:
    """The table that ascend-operator keeps for the unit's job, None where nobody has asked for one."""
    workload = episode.spec.workload
    if workload.kind != OWNER_KIND:
        return None
    return episode.state.rank_tables.get(f"{episode.namespace}/{PREFIX}{workload.name}")


def _waits(episode: Episode, message: str, times: Mapping[str, str | None]) -> Iterator[Action | Hold]:
    status = episode.status
    if times["ready"] == status.times.ready and (status.reason, status.message) == ("rank-table", message):
        yield Hold(episode.spec.unit, "rank-table", message)
    else:
        yield episode.to("Recreating", reason="rank-table", message=message, **times)


def _condition(episode: Episode, kind: str, reason: str, message: str) -> Condition:
    return Condition(kind, "True", reason, message, clock.seconds(episode.now.wall))
