"""The shape of a detection scenario file, as msgspec structs: unknown keys and wrong types are errors with a path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from console.scenario.common import LONGEST_S, ScenarioError, convert
from shared.model import FaultLevel

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_S)]
Severity = Annotated[int, msgspec.Meta(ge=0, le=3)]
Subject = int | Literal["node"]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing but the keys that are documented."""


class Machine(_Strict, frozen=True):
    generation: str = "910B"
    chips: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    events: bool = True


class CodeStep(_Strict, frozen=True):
    chip: int
    code: str
    severity: Severity | None = None


class EventStep(_Strict, frozen=True):
    chip: int
    code: str
    assertion: Literal["occur", "recover", "once"]
    severity: Severity | None = None


class DriverStep(_Strict, frozen=True):
    chip: int
    codes: list[str] | None = None
    health: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    error: int | None = None
    hang: bool | None = None


class LinkStep(_Strict, frozen=True):
    chip: int
    up: bool | None = None
    error: str | None = None


class WorkStep(_Strict, frozen=True):
    """From now on this is what a chip does, as the chip_hang probe sees it once a minute. A value that is left out
    cannot be read. processes: ids of those that hold it."""

    chip: int
    processes: list[int] | None = None
    aicore_pct: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    hbm_pct: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    packets_per_min: Annotated[int, msgspec.Meta(ge=0)] | None = None
    cpu_s_per_min: Annotated[float, msgspec.Meta(ge=0)] | None = None


class NodeStep(_Strict, frozen=True):
    code: str
    active: bool
    level: FaultLevel | None = None


class ChipStep(_Strict, frozen=True):
    chip: int


class ClockStep(_Strict, frozen=True):
    wall: float


class ReleaseStep(_Strict, frozen=True):
    release: CodeStep


class Step(_Strict, frozen=True):
    """One line of the timeline: a time and exactly one thing that happens."""

    at: Seconds
    occur: CodeStep | None = None
    recover: CodeStep | None = None
    once: CodeStep | None = None
    event: EventStep | None = None
    driver: DriverStep | None = None
    link: LinkStep | None = None
    work: WorkStep | None = None
    node: NodeStep | None = None
    gone: ChipStep | None = None
    back: ChipStep | None = None
    config: dict[str, Any] | None = None
    clock: ClockStep | None = None
    restart: Literal["agent", "host"] | None = None
    operator: ReleaseStep | None = None


class ExpectedFault(_Strict, frozen=True):
    chip: Subject
    code: str | None = None
    level: FaultLevel | None = None


class ExpectedUnknown(_Strict, frozen=True):
    chip: Subject


class Expect(_Strict, frozen=True):
    at: Seconds
    faults: list[ExpectedFault] | None = None
    unknown: list[ExpectedUnknown] | None = None
    events: list[str] | None = None
    healthy: dict[Subject, bool] | None = None
    queries: int | None = None


class Scenario(_Strict, frozen=True):
    kind: Literal["detection"]
    name: str
    timeline: list[Step]
    expect: list[Expect]
    origin: str = ""
    why: str = ""
    config: dict[str, Any] = {}
    machine: Machine = Machine()


_STEPS = tuple(name for name in Step.__struct_fields__ if name != "at")


def read(raw: dict[str, Any]) -> Scenario:
    """The scenario in `raw`. Raises ScenarioError for a file that says something impossible, with the key's path."""
    scenario = convert(raw, Scenario)
    for number, step in enumerate(scenario.timeline):
        where = f"$.timeline[{number}]"
        given = [name for name in _STEPS if getattr(step, name) is not None]
        if len(given) != 1:
            raise ScenarioError(f"{where}: must have exactly one step, has {', '.join(given) or 'none'}")
        what = getattr(step, given[0])
        chip = getattr(getattr(what, "release", what), "chip", 0)
        if not 0 <= chip < scenario.machine.chips:
            raise ScenarioError(f"{where}.{given[0]}.chip: the machine has no chip {chip}")
    return scenario
