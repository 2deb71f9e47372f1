"""The probes, one module each, found by a scan of this package: a new probe is a new file with a function `make`.

A module that cannot be imported, or has no `make`, stops the start: a probe that is silently missing looks healthy.
One that fails on this host is blind there, and told so; the others watch on.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil

from agent.config import AgentConfig
from agent.probe import CannotLook, MakeProbe, Observation, Probe, Sensors

log = logging.getLogger(__name__)


class BadProbe(Exception):
    """A module of this package is no probe; the text names it."""


class NotMade:
    """Stands for a probe that could not be set up, so that its subject is unknown and not forgotten."""

    timeout_s = 5.0

    def __init__(self, name: str, period_s: float, why: str) -> None:
        self.name, self.period_s = name, period_s
        self._why = why

    async def look(self) -> Observation:
        raise CannotLook(self._why)


def load(config: AgentConfig, sensors: Sensors) -> list[Probe]:
    """The probes that this host has something for, by name. Raises BadProbe."""
    probes: dict[str, Probe] = {}
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        make: MakeProbe | None = getattr(module, "make", None)
        if make is None:
            raise BadProbe(f"{module.__name__} has no function make(config, sensors)")
        if not module.__doc__:
            raise BadProbe(f"{module.__name__} has no docstring: say what it looks at")
        try:
            probe = make(config, sensors)
        except Exception as exc:
            log.exception("probe %s cannot be set up; its subject is unknown while this agent runs", found.name)
            why = f"bug in the probe: it could not be set up: {type(exc).__name__}: {exc}"
            probe = NotMade(found.name, config.poll.host_s, why)
        if probe is None:
            continue
        if probe.name in probes:
            raise BadProbe(f"{module.__name__}: there is a probe {probe.name!r} already")
        probes[probe.name] = probe
    return list(probes.values())
