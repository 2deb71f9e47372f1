"""What a probe is: one file in agent/probes, looking at one thing and saying what it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from agent.config import AgentConfig
from agent.detect.readings import ChipEvent, ChipFinding, ChipReading, DriverReading, LinkReading, NodeFinding
from agent.peer_book import PeerBook
from agent.sensors.gauges import Gauges
from agent.sensors.hccn import Hccn
from agent.sensors.pci import PciBus
from agent.sensors.worker import Enumeration


class ChipSource(Protocol):
    """The driver, however it is reached. Neither call raises: what cannot be read says so."""

    name: str

    @property
    def enumeration(self) -> Enumeration: ...
    async def poll(self) -> DriverReading: ...
    async def read(self, phy: int) -> ChipReading | None: ...
    def renew(self) -> None: ...
    async def close(self) -> None: ...


class PodSource(Protocol):
    """Which pods hold which chips (physical id -> UIDs). `look` brings it up to date and never raises; `error`: why the
    newest one was in vain."""

    error: str | None

    @property
    def pods(self) -> Mapping[int, tuple[str, ...]]: ...
    async def look(self) -> None: ...


class NoDriver:
    """Neither libdcmi.so nor npu-smi: every poll says so, and the node is blind."""

    name = "none"

    def __init__(self, why: str, bus: PciBus | None = None) -> None:
        self.enumeration = Enumeration({})
        self._why, self._bus = why, bus

    async def poll(self) -> DriverReading:
        if self._bus is None:
            return DriverReading(silent=self._why)
        return DriverReading(silent=self._why, pci=self._bus.npus, passed_through=self._bus.passed_through)

    async def read(self, phy: int) -> ChipReading | None:
        return None

    def renew(self) -> None:
        """There is nothing to enumerate."""

    async def close(self) -> None:
        """There is nothing to close."""


class Sensors(msgspec.Struct, frozen=True):
    """Everything a probe may look through; None = this host does not have it."""

    chips: ChipSource
    bus: PciBus
    hccn: Hccn | None = None
    gauges: Gauges | None = None
    peers: PeerBook | None = None
    pods: PodSource | None = None


class Observation(msgspec.Struct, frozen=True):
    """What one look has seen. A field that is None was not looked at.

    events: what somebody else than the driver's subscription heard; the driver is asked whether it is so.
    firmware: the version that most chips have.
    partly: why a part could not be looked at; what is said of the rest holds.
    """

    driver: DriverReading | None = None
    links: tuple[LinkReading, ...] | None = None
    events: tuple[ChipEvent, ...] | None = None
    chips: tuple[ChipFinding, ...] | None = None
    node: tuple[NodeFinding, ...] | None = None
    firmware: str | None = None
    partly: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why the look was in vain, or partly so, although it ended: a silent driver is a reading, and no good one."""
        return self.driver.silent if self.driver is not None else self.partly


REASONS_TOLD = 3


def partly(reasons: Sequence[str]) -> str | None:
    """Reasons why parts could not be looked at, as one: sixteen chips with the same trouble need no sixteen lines."""
    more = len(reasons) - REASONS_TOLD
    return "; ".join([*reasons[:REASONS_TOLD], *([f"and {more} more"] if more > 0 else [])]) or None


class CannotLook(Exception):
    """The subject could not be looked at: unknown, neither healthy nor faulty. The text says why."""


class Probe(Protocol):
    """`look` may raise CannotLook; anything else it raises is a bug, logged and kept from the other probes."""

    name: str
    period_s: float
    timeout_s: float

    async def look(self) -> Observation: ...


MakeProbe = Callable[[AgentConfig, Sensors], Probe | None]
"""`make` of a probe's module; None when this host has nothing to look at."""
