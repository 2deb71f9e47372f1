"""One open recovery with everything its phases look at, and what all phases share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from reconciler.core import clock
from reconciler.core.actions import Action, Hold, Progress
from reconciler.core.episodes import Struck
from reconciler.core.joining import JOINED
from reconciler.core.judge import Verdict
from reconciler.core.objects import Condition, Pod
from reconciler.core.recovery import FINISHED_PHASES, Recovery
from reconciler.core.state import State
from reconciler.core.triggers import Hit
from reconciler.core.units import EXTERNAL, Index
from reconciler.workloads import members
from shared.model import Instant

DEADLINE_S = {
    "Pending": 60.0,
    "Isolating": 60.0,
    "Deleting": 60.0,
    "Recreating": 600.0,
    "WaitingForCapacity": 3600.0,
    "Held": 3600.0,
}
"""How long each open phase may last before it is reported as overdue."""


class Episode:
    """One open recovery with everything a phase looks at."""

    def __init__(
        self,
        state: State,
        recovery: Recovery,
        struck: Struck | None,
        verdicts: Mapping[str, Verdict],
        index: Index,
        now: Instant,
        alarm: clock.Alarm,
    ) -> None:
        self.state, self.recovery, self.verdicts, self.index = state, recovery, verdicts, index
        self.now, self.alarm = now, alarm
        self.hits: tuple[Hit, ...] = struck.hits if struck else ()
        self.unit = struck.unit if struck else None
        self.spec, self.status = recovery.spec, recovery.status
        self.namespace = recovery.metadata.namespace

    def to(self, phase: str, *, reason: str = "", message: str = "", **times: str | None) -> Progress:
        """A status write: new phase, its reason, the moments just reached (None takes one back)."""
        stamped = msgspec.structs.replace(self.status.times, **times)
        ends, duration = phase in FINISHED_PHASES, ""
        if ends:
            stamped = msgspec.structs.replace(stamped, finished=self.stamp)
            began = clock.parse(stamped.detected)
            duration = "" if began is None else clock.span(self.now.wall - began)
        # What deleted nothing costs nothing.
        unused = phase == "Aborted" or (ends and self.status.times.claimed is None)
        status = msgspec.structs.replace(
            self.status,
            phase=phase,
            reason=reason,
            message=message,
            times=stamped,
            duration=duration,
            holder=self.state.holder,
            charged=0 if unused else self.status.charged,
        )
        return Progress(self.recovery, status)

    @property
    def causes(self) -> tuple[Hit, ...]:
        """The hits that call for this restart now.

        A pod that Failed is no cause of a restart that costs no retry: that is an episode of its own. Nor is a
        sub-health fault, unless the workload asked for a restart then.
        """
        paid = self.status.charged > 0 or any(c.type == JOINED for c in self.status.conditions)
        allowed = {"Hardware", "Node"} | ({"Software"} if paid else set()) | {self.spec.cause.kind} - {"Software"}
        return tuple(hit for hit in self.hits if hit.wait is None and hit.kind in allowed)

    @property
    def stamp(self) -> str:
        return clock.rfc3339(self.now.wall)

    def pods_now(self) -> tuple[Pod, ...]:
        """The pods that would be deleted if it were claimed now."""
        if self.unit is not None:
            return self.unit.pods
        pods = members(self.recovery, self.index)
        if self.spec.level == "Pod":
            pods = tuple(pod for pod in pods if pod.metadata.name == self.spec.instance)
        return pods

    def escalation_stands(self, pods: Iterable[Pod]) -> bool:
        """The cause of an escalation is a pod that does not come back: it stands until all pods are Ready."""
        return bool(self.spec.escalated_from) and not all(pod.ready for pod in pods)

    def isolated_nodes(self, pods: tuple[str | None, ...]) -> tuple[str, ...]:
        """Nodes of the cause and of the pods that are to carry our taint.

        A node that is gone needs none, nor does one that is known to be well again, or was released by a person.
        """
        causes = self.spec.cause.nodes
        found = {
            name: self.verdicts[name] for name in (*pods, *causes) if name is not None and name in self.state.nodes
        }
        return tuple(sorted(n for n, v in found.items() if v.want is not None or (n in causes and v.blind)))


def without_cause(episode: Episode) -> Iterator[Action | Hold]:
    """No hit is left that calls for a restart now: healed, or only not visible at the moment."""
    waiting = [hit.wait for hit in episode.hits if hit.wait is not None]
    blind = [name for name in episode.spec.cause.nodes if (v := episode.verdicts.get(name)) is None or v.blind]
    if waiting:
        yield Hold(episode.spec.unit, *waiting[0])
    elif blind:
        yield Hold(episode.spec.unit, "stale-report", f"cannot see {', '.join(blind)}: unknown is not healed")
    else:
        yield episode.to("Aborted", reason="healed", message="the cause was gone before anything was deleted")


def overdue(episode: Episode) -> Iterator[Action]:
    """A phase that lasts too long is reported in the object; it deletes nothing."""
    times, status = episode.status.times, episode.status
    opened = episode.recovery.metadata.creation_timestamp or times.detected
    reached = {"Pending": None, "Isolating": None, "Deleting": times.claimed}.get(status.phase, times.gone)
    entered = clock.parse(reached or opened)
    if entered is None:
        return
    limit = DEADLINE_S[status.phase]
    method = episode.spec.method
    # What an operator has not taken up yet is not ending yet.
    if status.phase == "Deleting" and (method == "grace" or (method == f"{EXTERNAL}grace" and times.deleted)):
        limit += episode.state.policy.reschedule.grace_over_time_s
    if episode.now.wall - entered < limit:
        episode.alarm.ring(episode.now.mono + limit - (episode.now.wall - entered))
        return
    if any(c.type == "Overdue" and c.reason == status.phase for c in status.conditions):
        return
    message = f"{status.phase} for more than {limit:.0f} s"
    overdue = Condition("Overdue", "True", status.phase, message, clock.seconds(episode.now.wall))
    kept = tuple(c for c in status.conditions if c.type != "Overdue")
    yield Progress(episode.recovery, msgspec.structs.replace(status, conditions=(*kept, overdue)))
