"""One pure plugin per kind of workload: which pods restart together, and at which level.

A plugin is a module here with `WORKLOAD`, an object of type `Workload`. It is found by scanning this package; a module
without one, or two plugins for one controller kind, is an error at import, not a workload that silently stays down.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol

from reconciler.core.objects import Owner, Pod
from reconciler.core.units import Index, NoUnit, Unit


class Workload(Protocol):
    """controllers: kinds of the pods' direct controller that this plugin claims. kinds: all kinds it knows of."""

    controllers: frozenset[str]
    kinds: frozenset[str]

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        """The unit of a pod whose controller kind is one of `controllers`. Pure."""
        ...

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        """(reason, message) when this owner makes no pods any more; None while it does."""
        ...


def _load() -> dict[str, Workload]:
    table: dict[str, Workload] = {}
    for module in pkgutil.iter_modules(__path__):
        plugin: Workload = importlib.import_module(f"{__name__}.{module.name}").WORKLOAD
        for kind in plugin.controllers:
            if kind in table:
                raise ImportError(f"reconciler/workloads/{module.name}.py: {kind} has a plugin already")
            table[kind] = plugin
    return table


WORKLOADS = _load()
_BY_KIND = {kind: plugin for plugin in WORKLOADS.values() for kind in plugin.kinds}


def ended(owner: Owner) -> tuple[str, str] | None:
    """Why this controller makes no pods any more: (reason, message), or None."""
    plugin = _BY_KIND.get(owner.kind)
    return None if plugin is None else plugin.ended(owner)


def unit_of(pod: Pod, index: Index) -> Unit | NoUnit:
    """The unit that restarts when this pod is hit, or why there is none."""
    own_id = f"{pod.metadata.namespace}/{pod.metadata.name}"
    ref = pod.metadata.controller
    if ref is None:
        return NoUnit(own_id, "no-owner", "a bare pod: nothing would bring it back")
    plugin = WORKLOADS.get(ref.kind)
    if plugin is None:
        return NoUnit(own_id, "no-owner", f"pods of a {ref.kind} are not restarted by this version")
    return plugin.unit(pod, index)
