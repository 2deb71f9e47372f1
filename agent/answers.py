"""What the agent's HTTP API answers with. Made from the agent as it stands; nothing here decides or waits."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agent.config import AgentConfig, node_name
from agent.detect.complaints import Complaint
from agent.detect.overlay import Override
from agent.fault_config import FaultConfig
from shared.model import Chip, Fault, FaultLevel, NodeReport, Unknown


class Alive(msgspec.Struct, frozen=True):
    status: Literal["ok"] = "ok"


class Verdict(msgspec.Struct, frozen=True):
    """The node as a whole. healthy: false from RestartRequest up, null when something could not be looked at.
    level: the worst of its faults, without a shadow drill's. at: Unix time of the report."""

    node: str
    healthy: bool | None
    level: FaultLevel | None
    faults: tuple[Fault, ...]
    unknown: tuple[Unknown, ...]
    at: float

    @classmethod
    def of(cls, report: NodeReport) -> Verdict:
        counted = [one for one in report.faults if one.origin == "probe" or one.evidence.get("effect") == "real"]
        worst = max((fault.level for fault in counted), default=None)
        healthy: bool | None = not report.unknown or None
        if worst is not None and worst >= FaultLevel.RESTART_REQUEST:
            healthy = False
        return cls(report.node, healthy, worst, report.faults, report.unknown, report.at)


class ChipDetails(msgspec.Struct, frozen=True):
    """One chip with everything that is said of it alone."""

    chip: Chip
    faults: tuple[Fault, ...]
    unknown: tuple[Unknown, ...]


class FaultFile(msgspec.Struct, frozen=True):
    """A file of paths.config_dir. in_force: whether its newest content is; if not, bad_entries says why."""

    name: str
    in_force: bool


class EffectiveConfig(msgspec.Struct, frozen=True):
    """settings: all of agent.toml, defaults included, without passwords. rules: the level, frequency and duration rules
    that differ from what ships, or all of the code that was asked for, and where each stands. bad_entries: what is in
    the files and not used."""

    settings: dict[str, Any]
    files: list[FaultFile]
    rules: list[Override]
    bad_entries: list[Complaint]

    @classmethod
    def of(cls, config: AgentConfig, fault_config: FaultConfig, code: str | None = None) -> EffectiveConfig:
        settings = msgspec.to_builtins(config)
        settings["node"] = node_name(config)
        settings["redis"]["url"] = config.redis.shown
        return cls(
            settings=settings,
            files=[FaultFile(name, in_force) for name, in_force in fault_config.files()],
            rules=fault_config.overrides() if code is None else fault_config.rules_of(code),
            bad_entries=fault_config.bad_entries(),
        )
