"""One pure plugin per kind of workload: which pods restart together, and at which level.

A plugin is a module here with `WORKLOAD`, an object of type `Workload`. It is found by scanning this package; a module
without one, or two plugins for one kind, is an error at import, not a workload that silently stays down.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol

from reconciler.core.objects import Owner, OwnerReference, Pod, Recovery
from reconciler.core.units import Index, NoUnit, Unit


class Workload(Protocol):
    """controllers: `Kind.group` of the pods' direct controllers that this plugin claims.

    label: a pod label that claims a pod before any controller does (its controller is an ordinary StatefulSet, say);
    None = controllers alone. kinds: every owner kind whose end this plugin can tell.
    """

    controllers: frozenset[str]
    label: str | None
    kinds: frozenset[str]

    def unit(self, pod: Pod, index: Index) -> Unit | NoUnit:
        """The unit of a pod that this plugin claims. Pure."""
        ...

    def members(self, recovery: Recovery, index: Index) -> tuple[Pod, ...]:
        """All pods of the recovery's unit that exist now, old and new; at pod level, all that might be the new one."""
        ...

    def ended(self, owner: Owner) -> tuple[str, str] | None:
        """(reason, message) when this owner makes no pods any more; None while it does."""
        ...


def _load() -> dict[str, Workload]:
    table: dict[str, Workload] = {}
    for module in pkgutil.iter_modules(__path__):
        plugin: Workload = importlib.import_module(f"{__name__}.{module.name}").WORKLOAD
        claims = {*plugin.controllers, *([plugin.label] if plugin.label else [])}
        for claim in claims:
            if claim in table:
                raise ImportError(f"reconciler/workloads/{module.name}.py: {claim} has a plugin already")
            table[claim] = plugin
    return table


WORKLOADS = _load()
_BY_LABEL = {plugin.label: plugin for plugin in WORKLOADS.values() if plugin.label is not None}
_BY_KIND = {kind: plugin for plugin in WORKLOADS.values() for kind in plugin.kinds}


def _claim(ref: OwnerReference) -> str:
    return f"{ref.kind}.{ref.api_version.rpartition('/')[0]}"


def _plugin(pod: Pod) -> Workload | None:
    for label, plugin in _BY_LABEL.items():
        if label in pod.metadata.labels:
            return plugin
    ref = pod.metadata.controller
    return None if ref is None else WORKLOADS.get(_claim(ref))


def unit_of(pod: Pod, index: Index) -> Unit | NoUnit:
    """The unit that restarts when this pod is hit, or why there is none."""
    own_id = f"{pod.metadata.namespace}/{pod.metadata.name}"
    ref = pod.metadata.controller
    if ref is None:
        return NoUnit(own_id, "no-owner", "a bare pod: nothing would bring it back")
    plugin = _plugin(pod)
    if plugin is None:
        return NoUnit(own_id, "no-owner", f"pods of a {ref.kind} are not restarted by this version")
    return plugin.unit(pod, index)


def members(recovery: Recovery, index: Index) -> tuple[Pod, ...]:
    """All pods of a recovery's unit that exist now."""
    plugin = _BY_KIND.get(recovery.spec.workload.kind)
    return () if plugin is None else plugin.members(recovery, index)


def ended(owner: Owner) -> tuple[str, str] | None:
    """Why this controller makes no pods any more: (reason, message), or None."""
    plugin = _BY_KIND.get(owner.kind)
    return None if plugin is None else plugin.ended(owner)
