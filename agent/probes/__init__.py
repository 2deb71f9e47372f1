"""The probes, one module each, found by a scan of this package: a new probe is a new file with a function `make`.

A module that cannot be imported, or has no `make`, stops the start: a probe that is silently missing looks healthy.
"""

from __future__ import annotations

import importlib
import pkgutil

from agent.config import AgentConfig
from agent.probe import MakeProbe, Probe, Sensors


class BadProbe(Exception):
    """A module of this package is no probe; the text names it."""


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
        probe = make(config, sensors)
        if probe is None:
            continue
        if probe.name in probes:
            raise BadProbe(f"{module.__name__}: there is a probe {probe.name!r} already")
        probes[probe.name] = probe
    return list(probes.values())
