"""The agents of a virtual cluster: what each node says, every 15 s, and the Redis between them and the reconciler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from console.scenario.virtual_clock import Clock
from shared.model import AgentInfo, Chip, Fault, FaultEvent, Machine, NodeReport, Unknown
from shared.version import VERSION

HEARTBEAT_S = 15.0
KEPT_S = 3600.0
"""Redis forgets a report after so long."""


@dataclass(slots=True)
class _Agent:
    node: str
    chips: int
    next_at: float
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    silent: bool = False
    boots: int = 1
    version: str = VERSION
    seq: int = 0
    outbox: list[FaultEvent] = field(default_factory=list)
    stored: NodeReport | None = None


class Agents:
    """`report` and `silence` change what a node says; `step` sends what is due; `hear` takes what gets through."""

    def __init__(self, clock: Clock, hear: Callable[[NodeReport], None]) -> None:
        self._clock = clock
        self._hear = hear
        self._agents: dict[str, _Agent] = {}
        self.redis_up = True

    def report(self, node: str, faults: Iterable[Fault] = (), unknown: Iterable[Unknown] = (), *, chips: int) -> None:
        """From now on this is the node's whole truth. A fault that was open before keeps its `since`."""
        agent = self._agents.setdefault(node, _Agent(node, chips, next_at=self._clock.t))
        before = {fault.id: fault for fault in agent.faults}
        now = {f.id: msgspec.structs.replace(f, since=before[f.id].since) if f.id in before else f for f in faults}
        wall = self._clock.wall()
        agent.outbox += [FaultEvent("raised", fault, wall) for fault in now if fault not in before]
        agent.outbox += [FaultEvent("cleared", fault, wall) for fault in before if fault not in now]
        agent.faults, agent.unknown, agent.silent = tuple(now.values()), tuple(unknown), False
        self._send(agent)

    def reboot(self, node: str) -> None:
        """The node has booted once more: said with the next report."""
        self._agents[node].boots += 1

    def upgrade(self, node: str, version: str) -> None:
        """The node's agent is of another version from now on: said with the next report."""
        self._agents[node].version = version

    def knows(self, node: str) -> bool:
        """Whether this node has ever had an agent."""
        return node in self._agents

    def silence(self, node: str) -> None:
        """The agent says nothing more; a node that never had one stays as it is."""
        if node in self._agents:
            self._agents[node].silent = True

    def redis(self, *, up: bool) -> None:
        """Away: nothing is written and nothing read. Back: every agent writes its newest report at once."""
        self.redis_up = up
        if up:
            for agent in self._speaking():
                self._send(agent)

    def read_again(self) -> None:
        """What a new leader reads: the stored report of every node, of the silent ones too while Redis has it."""
        for agent in self._agents.values():
            stored = agent.stored
            if self.redis_up and stored is not None and self._clock.wall() - stored.at < KEPT_S:
                self._hear(stored)

    def step(self) -> None:
        for agent in self._speaking():
            if agent.next_at <= self._clock.t:
                self._send(agent)

    def next_due(self) -> float | None:
        return min((agent.next_at for agent in self._speaking()), default=None)

    def _speaking(self) -> list[_Agent]:
        return [agent for agent in self._agents.values() if not agent.silent]

    def _send(self, agent: _Agent) -> None:
        agent.next_at = self._clock.t + HEARTBEAT_S
        if not self.redis_up:
            return
        agent.seq += 1
        agent.stored = NodeReport(
            v=1,
            node=agent.node,
            session=f"session-of-{agent.node}",
            seq=agent.seq,
            boot_id=f"boot-{agent.boots}-of-{agent.node}",
            at=self._clock.wall(),
            agent=AgentInfo(version=agent.version),
            machine=Machine(generation="910B"),
            chips=_chips(agent),
            faults=agent.faults,
            unknown=agent.unknown,
            events=tuple(agent.outbox),
        )
        agent.outbox.clear()
        self._hear(agent.stored)


def _chips(agent: _Agent) -> tuple[Chip, ...]:
    unseen = {unknown.chip for unknown in agent.unknown}
    codes: dict[int | str, list[str]] = {}
    for fault in agent.faults:
        codes.setdefault(fault.chip, []).append(fault.code)
    numbers = sorted({*range(agent.chips), *(chip for chip in (*codes, *unseen) if isinstance(chip, int))})
    return tuple(
        Chip(
            phy=phy,
            health="unknown" if phy in unseen else "fault" if phy in codes else "ok",
            codes=tuple(codes.get(phy, ())),
        )
        for phy in numbers
    )
