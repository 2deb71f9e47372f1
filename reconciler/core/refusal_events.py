"""Which refusals a person is told of, as Events on the workload or the node that is left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.core.actions import Hold
from reconciler.core.calls import Call
from reconciler.core.events import event
from reconciler.core.state import State
from shared.model import Instant

TOLD = frozenset(
    {
        "label-missing",
        "label-invalid",
        "retry-disabled",
        "retries-exhausted",
        "backoff-limit",
        "no-owner",
        "foreign-actor",
        "stand-down",
        "min-ready",
        "common-cause",
        "breaker",
        "deploy-server",
        "policy-ends-job",
        "owner-terminal",
        "capacity",
    }
)
"""Refusals that stay until somebody does something. What only waits, or was asked for, is no Event; but room comes by
itself only where something else ends, and until then work stays on faulty hardware or waits."""

HELD = frozenset({"paused", "budget", "stale-report", "breaker", "common-cause"})
"""Refusals that hold a restart which has begun: its Recovery stands in its phase, and this says why."""

RECOVERY_HELD = "RecoveryHeld"


def held(state: State, holds: Iterable[Hold]) -> dict[tuple[str, str], Hold]:
    """Of a plan's refusals those that hold a restart which has begun, by subject and reason; they name its Recovery."""
    waiting = [hold for hold in holds if hold.reason in HELD]
    begun = {one.spec.unit: one for one in state.recoveries.values() if one.open} if waiting else {}
    found = {}
    for hold in waiting:
        if (recovery := begun.get(hold.subject)) is not None:
            where = f"recovery {recovery.metadata.name} is held in {recovery.status.phase} ({hold.reason})"
            found[hold.subject, hold.reason] = Hold(hold.subject, hold.reason, f"{where}: {hold.message}")
    return found


def told(holds: Iterable[Hold]) -> dict[tuple[str, str], Hold]:
    """Of a plan's refusals those that are told, by subject and reason."""
    return {(hold.subject, hold.reason): hold for hold in holds if hold.reason in TOLD}


def refusal_events(state: State, holds: Iterable[Hold], now: Instant, *, reason: str = "") -> Iterator[Call]:
    """One Event each, of this reason or else its own in UpperCamelCase (`LabelMissing`); none for a subject that is no
    object we know.

    Under observe_only nothing is written to the cluster, not even this.
    """
    holds = tuple(holds)
    if not holds or state.policy.observe_only:
        return
    tops = {owner.metadata.key: owner for owner in state.owners.values() if owner.metadata.controller is None}
    for hold in holds:
        namespace, _, rest = hold.subject.partition("/")
        name = rest.partition("/")[0]
        key = f"{namespace}/{name}"
        if (node := state.nodes.get(hold.subject)) is not None:
            about = ("Node", "", hold.subject, node.metadata.uid)
        elif (owner := tops.get(key)) is not None:
            about = (owner.kind, namespace, name, owner.metadata.uid)
        elif (pod := state.pods.get(key)) is not None:
            about = ("Pod", namespace, name, pod.metadata.uid)
        else:
            continue
        word = reason or "".join(part.capitalize() for part in hold.reason.split("-"))
        yield event(*about, word, f"{hold.subject}: {hold.message}", "Warning", now)
