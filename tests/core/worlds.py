"""A World from plain objects, and reports, for tests that look at one decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reconciler.core import fold
from reconciler.core.actions import Plan
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from reconciler.core.state import World
from shared.model import SCHEMA_VERSION, AgentInfo, Chip, Fault, FaultLevel, Instant, NodeReport, fault_id

T0 = Instant(mono=10_000.0, wall=1_800_000_000.0)
"""The leader has led for long when tests begin."""


def after(seconds: float) -> Instant:
    return Instant(T0.mono + seconds, T0.wall + seconds)


def world_of(objects: Iterable[dict[str, Any]], *, policy: Policy | None = None, led_s: float = 1000.0) -> World:
    world = World(policy=policy or Policy(), leader_since=T0.mono - led_s, holder="me")
    world.memory.reports_since = T0.mono - led_s
    for obj in objects:
        fold.observe(world, obj["kind"], "set", obj)
    return world


def a_fault(
    chip: int | str = 3,
    code: str = "80E18402",
    level: FaultLevel = FaultLevel.SEPARATE_NPU,
    *,
    confirmed: bool = True,
) -> Fault:
    subject: Any = chip
    return Fault(id=fault_id(code, chip), code=code, chip=subject, level=level, since=T0.wall, confirmed=confirmed)


def report(node: str, *faults: Fault, seq: int = 1, session: str = "s1", chips: tuple[Chip, ...] = ()) -> NodeReport:
    return NodeReport(
        v=SCHEMA_VERSION,
        node=node,
        session=session,
        seq=seq,
        boot_id="b",
        at=T0.wall,
        agent=AgentInfo("0"),
        chips=chips,
        faults=faults,
    )


def hear(world: World, *reports: NodeReport, at: Instant = T0) -> None:
    for said in reports:
        assert fold.heard(world, said, at) is None


def decide(world: World, at: Instant = T0) -> Plan:
    fold.advance(world, at)
    return plan(world.snapshot(), at)


def kinds(decided: Plan) -> list[str]:
    """`Isolate Node/a`, ... without the bookkeeping of every plan of a fresh cluster: conditions, the retry ledger."""
    kept = ("SetCondition", "KeepOffered", "WriteLedger")
    return [f"{type(a).__name__} {a.key}" for a in decided.actions if type(a).__name__ not in kept]


def reasons(decided: Plan, subject: str) -> list[str]:
    return [hold.reason for hold in decided.holds if hold.subject == subject]
