"""A replica of the tests: the API and the page of a world that they write, without a cluster or Redis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from reconciler.core import fold
from reconciler.core.actions import Plan
from reconciler.core.judge import FIRST_MINUTE_S
from reconciler.core.kept_logs import KeptLogs
from reconciler.core.plan import plan
from reconciler.core.recovery import Recovery
from reconciler.core.state import State, World
from reconciler.inbox import BadMessage
from reconciler.metrics import Metrics
from shared.aio import Ticks, now
from shared.model import AgentInfo, Chip, Drill, Fault, FaultLevel, NodeReport, fault_id
from tests.core.build import node

HOLDER = "npuwarden-reconciler-7d9c_3f1e_ab12cd34"


@dataclass
class Replica:
    """Leads, unless told otherwise; plans when it is told `decide`, as the planner does when something changes."""

    world: World
    leads: bool = True
    refused: str | None = None
    holder: str = HOLDER
    leading: str = HOLDER
    metrics: Metrics = field(default_factory=Metrics)
    ticks: Ticks = field(default_factory=Ticks)
    decided: tuple[State, Plan] | None = None

    def say(self, name: str, *faults: Fault, chips: int = 8, unseen: Iterable[int] = ()) -> None:
        """The newest report of a node."""
        last = self.world.heard.get(name)
        broken, dark = {fault.chip for fault in faults}, set(unseen)
        seen = tuple(
            Chip(phy, "fault" if phy in broken else "unknown" if phy in dark else "ok") for phy in range(chips)
        )
        said = NodeReport(
            1,
            name,
            f"session-{name}",
            last.report.seq + 1 if last else 1,
            "boot",
            now().wall,
            AgentInfo("1"),
            chips=seen,
            faults=faults,
        )
        assert fold.heard(self.world, said, now()) is None

    def drill(self, name: str, chip: int = 1) -> None:
        """A shadow drill runs on this node, and its fault is open."""
        until = now().wall + 300
        said = {"drill": "d1", "effect": "shadow", "until": until}
        fault = msgspec.structs.replace(a_fault(chip, origin="drill"), evidence=said)
        self.say(name, fault)
        heard = self.world.heard[name]
        running = Drill("d1", fault.id, "shadow", until)
        self.world.heard[name] = replace(heard, report=msgspec.structs.replace(heard.report, drill=running))

    def observe(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            fold.observe(self.world, obj["kind"], "set", obj)

    def decide(self) -> None:
        at = now()
        fold.advance(self.world, at)
        state = self.world.snapshot()
        self.decided = state, plan(state, at)

    def newest(self) -> tuple[State, Plan] | None:
        return self.decided if self.leads else None

    def leader(self) -> str:
        return self.leading

    def policy_known(self) -> bool:
        return True

    def not_synced(self) -> list[str]:
        return []

    def policy_error(self) -> str | None:
        return self.refused

    def bad_messages(self) -> list[BadMessage]:
        return []

    def watched(self) -> State:
        return self.world.snapshot()

    async def kept(self, _recovery: Recovery) -> KeptLogs:
        return KeptLogs([], "no logs are kept")


def replica_of(nodes: int, *, chips: int = 8) -> Replica:
    """The leader of a fleet that is well."""
    at = now()
    world = World(leader_since=at.mono - FIRST_MINUTE_S, holder=HOLDER)
    world.memory.reports_since = at.mono - FIRST_MINUTE_S
    made = Replica(world)
    names = [f"npu-{number:0{len(str(nodes - 1))}}" for number in range(nodes)]
    made.observe(*map(node, names))
    for name in names:
        made.say(name, chips=chips)
    made.decide()
    return made


def a_fault(
    chip: int | str = 3,
    level: FaultLevel = FaultLevel.SEPARATE_NPU,
    code: str = "80E18402",
    *,
    age_s: float = 40.0,
    origin: Any = "probe",
    confirmed: bool = True,
) -> Fault:
    subject: Any = chip
    return Fault(fault_id(code, chip), code, subject, level, now().wall - age_s, confirmed=confirmed, origin=origin)
