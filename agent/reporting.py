"""Detection's view, with what only the host knows (pods, addresses, versions), as a NodeReport. No I/O."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.detect.view import DetectView
from agent.probe import Sensors
from agent.sensors.worker import Enumeration
from shared.model import (
    SCHEMA_VERSION,
    AgentInfo,
    ChangeNote,
    Chip,
    Drill,
    FaultEvent,
    Instant,
    Machine,
    NodeReport,
    ProbeStatus,
)
from shared.version import VERSION


class Context(msgspec.Struct, frozen=True):
    """What stands beside the faults: who holds which chip, what the driver says of itself, how the probes are doing."""

    enumeration: Enumeration
    generation: str | None = None
    pods: Mapping[int, tuple[str, ...]] = {}
    probes: tuple[ProbeStatus, ...] = ()
    passed_through: frozenset[str] = frozenset()
    firmware: str | None = None

    @classmethod
    def of(
        cls,
        sensors: Sensors,
        probes: tuple[ProbeStatus, ...] = (),
        firmware: str | None = None,
    ) -> Context:
        bus, pods = sensors.bus, {} if sensors.pods is None else sensors.pods.pods
        return cls(sensors.chips.enumeration, bus.generation, pods, probes, bus.passed_through, firmware)


class Reporter:
    """One session: a UUID per process; `seq` counts its reports."""

    def __init__(self, *, node: str, boot_id: str, url: str | None) -> None:
        self.session = str(uuid.uuid4())
        self._node, self._boot_id = node, boot_id
        self._agent = AgentInfo(VERSION, url)
        self._seq = 0
        self._told: object = None
        self.changed = False
        """Whether the last report said anything new: then Redis gets a note of it, so that nobody waits for a sweep."""

    def report(
        self,
        view: DetectView,
        context: Context,
        events: Sequence[FaultEvent],
        now: Instant,
        *,
        beat: bool,
        drill: Drill | None = None,
    ) -> NodeReport | None:
        """The next report, or None when nothing has changed and no heartbeat is due (`beat`)."""
        chips = tuple(_chip(chip, context) for chip in view.chips)
        told = _essence(view, chips, context), drill
        changed = bool(events) or told != self._told
        if not (beat or changed):
            return None
        self.changed = changed
        self._told = told
        self._seq += 1
        return NodeReport(
            v=SCHEMA_VERSION,
            node=self._node,
            session=self.session,
            seq=self._seq,
            boot_id=self._boot_id,
            at=now.wall,
            agent=self._agent,
            machine=_machine(context),
            chips=chips,
            faults=view.faults,
            unknown=view.unknown,
            # Those in trouble alone: sixteen healthy ones would be a fifth of every report (docs/adr/0006).
            probes=tuple(probe for probe in context.probes if probe.error is not None),
            events=tuple(events),
            drill=drill,
        )


def note_of(report: NodeReport) -> ChangeNote:
    """The report's entry in the stream. One without events is a hint too: a fault may have been confirmed."""
    return ChangeNote(report.v, report.node, report.session, report.seq, report.events)


def _essence(view: DetectView, chips: tuple[Chip, ...], context: Context) -> tuple[Any, ...]:
    """What makes a report worth sending between heartbeats: evidence, wording and ages do not."""
    faults = tuple((f.id, f.level, f.since, f.confirmed, f.part, f.origin) for f in view.faults)
    return faults, tuple((one.chip, one.probe) for one in view.unknown), chips, _machine(context)


def _machine(context: Context) -> Machine:
    found = context.enumeration
    pods = [chip.super_pod for chip in found.chips.values() if chip.super_pod is not None]
    return Machine(
        context.generation,
        driver=found.driver,
        firmware=context.firmware,
        super_pod_id=pods[0] if pods else None,
        passed_through=tuple(sorted(context.passed_through)),
    )


def _chip(chip: Chip, context: Context) -> Chip:
    facts = context.enumeration.chips.get(chip.phy)
    pods = context.pods.get(chip.phy, ())
    return msgspec.structs.replace(
        chip, pods=pods, ip=facts.ip if facts else chip.ip, sdid=facts.sdid if facts else chip.sdid
    )
