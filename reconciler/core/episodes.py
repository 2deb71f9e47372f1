"""New episodes: which units are to be restarted, and which are not and why. Opens a Recovery, deletes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from reconciler.core import clock, retries
from reconciler.core.actions import Action, Hold, OpenRecovery
from reconciler.core.brakes import Brakes
from reconciler.core.budget import dead_anyway
from reconciler.core.exhausted import give_up
from reconciler.core.foreign import stand_down
from reconciler.core.judge import few
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Times
from reconciler.core.state import State
from reconciler.core.triggers import Hit, Hits, sub_health_ignored, sub_health_method
from reconciler.core.units import (
    FAULT_RETRY_TIMES,
    Index,
    NoUnit,
    Unit,
    episode_key,
    hand_of,
    label_values,
    method_of,
    retry_limit,
)
from reconciler.workloads import unit_of
from shared.model import Instant


@dataclass(frozen=True, slots=True)
class Struck:
    """A unit and everything that hits it."""

    unit: Unit
    hits: tuple[Hit, ...]

    @property
    def now(self) -> tuple[Hit, ...]:
        return tuple(hit for hit in self.hits if hit.wait is None)


def strike(hits: Hits, index: Index) -> tuple[dict[str, Struck], list[Hold]]:
    """Hits by unit, and a Hold for every hit or spared pod that leads to no restart."""
    units: dict[str, Unit] = {}
    by_unit: dict[str, list[Hit]] = {}
    holds: dict[tuple[str, str], Hold] = {}
    for hit in hits.hits:
        unit = unit_of(hit.pod, index)
        if isinstance(unit, NoUnit):
            holds[unit.id, unit.reason] = Hold(unit.id, unit.reason, f"{unit.message}; hit by {hit.fault}")
            continue
        if unit.repairs and hit.kind == "Software" and hit.pod.failed:
            holds[unit.id, "foreign-actor"] = Hold(unit.id, "foreign-actor", f"{hit.fault}: {unit.repairs}")
            continue
        units.setdefault(unit.key, unit)
        by_unit.setdefault(unit.key, []).append(hit)
    struck_ids = {unit.id for unit in units.values()}
    for pod, node in hits.spared:
        unit = unit_of(pod, index)
        if unit.id not in struck_ids:
            message = f"pod {pod.metadata.name} on {node} uses none of the faulty chips"
            holds.setdefault((unit.id, "chip-not-used"), Hold(unit.id, "chip-not-used", message))
    return {key: Struck(unit, tuple(by_unit[key])) for key, unit in units.items()}, list(holds.values())


def struck_of(key: str, struck: Mapping[str, Struck]) -> Struck | None:
    """What hits the unit of this key: itself, or the single pods of a job that now restarts as a whole."""
    if key in struck:
        return struck[key]
    parts = [part for part in struck.values() if part.unit.id == key and part.unit.beyond is not None]
    if not parts or parts[0].unit.beyond is None:
        return None
    return Struck(parts[0].unit.beyond, tuple(hit for part in parts for hit in part.hits))


def plan_new(state: State, struck: Struck, index: Index, brakes: Brakes, now: Instant) -> Iterator[Action | Hold]:
    """Open an episode for a unit that has none open, or say why not. The gates stand in order of finality."""
    unit = struck.unit
    if unit.blocked is not None and unit.blocked[0] != "backoff-limit":
        yield Hold(unit.id, *unit.blocked)
        return
    if (foreign := stand_down(state, unit.pods)) is not None:
        yield Hold(unit.id, *foreign)
        return
    method = method_of(unit, index)
    if method.name is None:
        yield Hold(unit.id, method.reason, method.message)
        return
    hardware = [hit for hit in struck.now if hit.kind in ("Hardware", "Node")]
    software = [hit for hit in struck.now if hit.kind == "Software"]
    sub_health = [hit for hit in struck.now if hit.kind == "SubHealth"]
    chosen, how, charge = hardware, method.name, 0
    if not hardware and sub_health and (wish := sub_health_method(unit, index)) is not None:
        chosen, how = sub_health, hand_of(unit, wish)
    if not chosen and software:
        refusal = _no_retry(unit, index)
        if refusal is not None and refusal.reason == "retries-exhausted":
            yield from give_up(state, unit, _open(unit, index, software, how, 0, now), refusal)
            return
        if refusal is not None:
            yield refusal
            return
        chosen, charge = software, 1
    if not chosen:
        for hit in struck.hits:
            if hit.wait is not None:
                yield Hold(unit.id, *hit.wait)
        if sub_health:
            yield Hold(unit.id, "sub-health", sub_health_ignored(unit, index))
        return
    if unit.blocked is not None:
        yield from give_up(state, unit, _open(unit, index, chosen, how, 0, now), Hold(unit.id, *unit.blocked))
        return
    if state.paused:
        yield Hold(unit.id, "paused", f"would restart for {chosen[0].fault}; {state.paused}")
        return
    braked = brakes.restart(hit.node for hit in chosen if hit.node is not None and hit.kind != "Software")
    serves = not dead_anyway(state, brakes.verdicts, unit)
    if braked is None and serves:
        braked = _no_room(unit, chosen, brakes, index) or brakes.voluntary(unit, index)
    if braked is not None:
        yield Hold(unit.id, *braked)
        return
    if not serves:
        brakes.goes_down(unit, index)
    brakes.leaves(unit.pods, {hit.node for hit in chosen if hit.node is not None})
    action = _open(unit, index, chosen, how, charge, now)
    yield replace(action, spec=msgspec.structs.replace(action.spec, voluntary=serves))


def plan_escalated(state: State, opened: Mapping[str, Recovery], index: Index, now: Instant) -> Iterator[Action | Hold]:
    """The larger restart after a pod-level recovery that ended as Escalated; it costs no retry of its own."""
    followed = {recovery.spec.escalated_from for recovery in state.recoveries.values()}
    for key in sorted(state.recoveries):
        recovery = state.recoveries[key]
        controller = recovery.spec.controller
        if recovery.status.phase != "Escalated" or recovery.metadata.name in followed or controller is None:
            continue
        pods = index.by_controller.get(controller.uid, ())
        unit = next((u.beyond for pod in pods if isinstance(u := unit_of(pod, index), Unit) and u.beyond), None)
        if unit is None or unit.key in opened:
            continue
        if (refused := unit.blocked or stand_down(state, unit.pods)) is not None:
            yield Hold(unit.id, *refused)
            continue
        if (method := method_of(unit, index)).name is None:
            yield Hold(unit.id, method.reason, method.message)
            continue
        if state.paused:
            yield Hold(unit.id, "paused", f"would restart the whole job; {state.paused}")
            continue
        action = _open(unit, index, (), recovery.spec.method, 0, now)
        spec = msgspec.structs.replace(action.spec, cause=recovery.spec.cause, escalated_from=recovery.metadata.name)
        yield OpenRecovery(action.namespace, action.name, spec, action.status)


def _no_room(unit: Unit, hits: Sequence[Hit], brakes: Brakes, index: Index) -> tuple[str, str] | None:
    """Why a unit that still serves had better go on where it is: its new pods would only wait."""
    text = brakes.room(index).shortage(unit.pods, {hit.node for hit in hits if hit.node is not None})
    return None if text is None else ("capacity", f"still serves with {hits[0].fault}: {text}")


def _no_retry(unit: Unit, index: Index) -> Hold | None:
    limit = retry_limit(unit, index)
    values = label_values(unit, index, FAULT_RETRY_TIMES)
    if len(values) > 1:
        shown = ", ".join(sorted(values, key=lambda value: (len(value), value)))
        return Hold(
            unit.id, "retry-disabled", f"a pod Failed, and label {FAULT_RETRY_TIMES} has different values: {shown}"
        )
    if limit is None:
        return Hold(unit.id, "retry-disabled", "a pod Failed, and fault-retry-times is missing or no number above 0")
    if retries.used(unit, index) >= limit:
        return Hold(unit.id, "retries-exhausted", f"a pod Failed, and all {limit} retries are used: look why it fails")
    return None


def _open(unit: Unit, index: Index, hits: Sequence[Hit], method: str, charge: int, now: Instant) -> OpenRecovery:
    nodes = tuple(sorted({hit.node for hit in hits if hit.node and hit.kind != "Software"}))
    seen = [hit.since_wall for hit in hits if hit.since_wall is not None and 0 <= hit.since_wall <= now.wall]
    spec = RecoverySpec(
        workload=unit.workload,
        unit=unit.id,
        instance=unit.instance,
        level=unit.level,
        method=method,
        cause=Cause(hits[0].kind if hits else "Hardware", few(sorted({hit.fault for hit in hits})), nodes),
        controller=unit.controller,
        size=unit.size or len(unit.pods),
        origin="drill" if hits and all(hit.origin == "drill" for hit in hits) else "probe",
        history=retries.history_of(unit, index),
    )
    detected = clock.rfc3339(min(seen, default=now.wall))
    status = RecoveryStatus(
        phase="Isolating",
        message=f"restarts {len(unit.pods)} pods for {', '.join(spec.cause.faults) or 'a pod that did not come back'}",
        charged=charge,
        times=Times(detected=detected),
    )
    return OpenRecovery(unit.namespace, _name(index.state, unit, spec.history.recoveries), spec, status)


def _name(state: State, unit: Unit, before: int) -> str:
    """The same episode has the same name whoever opens it: the second create is refused by the API server.

    An episode is the unit's present pods and how many recoveries the unit has had before.
    """
    while True:
        text = "/".join([unit.id, str(before), *sorted(pod.metadata.uid for pod in unit.pods)])
        name = f"{unit.workload.name[:40].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        if f"{unit.namespace}/{name}" not in state.recoveries:
            return name
        before += 1  # earlier ones were removed by somebody: that name has been used


def open_of(state: State) -> dict[str, Recovery]:
    """The open recovery of each unit, by the unit's key."""
    return {
        episode_key(recovery.spec.unit, recovery.spec.level, recovery.spec.instance): recovery
        for recovery in state.recoveries.values()
        if recovery.open
    }
