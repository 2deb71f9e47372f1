"""One pure plugin per kind of workload: which pods restart together, and at which level.

A plugin is a module here with `WORKLOAD`, an object of type `Workload`. It is found by scanning this package; a module
without one, or two plugins for one kind, is an error at import, not a workload that silently stays down.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import Protocol

from reconciler.core.objects import Owner, OwnerReference, Pod
from reconciler.core.recovery import Recovery, WorkloadRef
from reconciler.core.units import Index, NoUnit, Unit


class Workload(Protocol):
    """controllers: `Kind.group` of the pods' direct controllers that this plugin claims.

    label: a pod label that claims the pods of ordinary StatefulSets and ReplicaSets; None = controllers alone. kinds:
    every owner kind whose end this plugin can tell. rebuilt: the pods' controller may be deleted and made anew in
    the middle of a restart; that ends no recovery.
    """

    controllers: frozenset[str]
    label: str | None
    kinds: frozenset[str]
    rebuilt: bool

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
_ORDINARY = frozenset({"StatefulSet.apps", "ReplicaSet.apps"})
"""Controllers by which other workloads make their pods: only there a label tells whose pod it is."""
_BY_KIND = {kind: plugin for plugin in WORKLOADS.values() for kind in plugin.kinds}


def _claim(ref: OwnerReference) -> str:
    return f"{ref.kind}.{ref.api_version.rpartition('/')[0]}"


def _plugin(pod: Pod) -> Workload | None:
    ref = pod.metadata.controller
    if ref is None:
        return None
    claim = _claim(ref)
    if claim in _ORDINARY:
        for label, plugin in _BY_LABEL.items():
            if label in pod.metadata.labels:
                return plugin
    return WORKLOADS.get(claim)


def unit_of(pod: Pod, index: Index) -> Unit | NoUnit:
    """The unit that restarts when this pod is hit, or why there is none."""
    found = index.units.get(id(pod))
    if found is None:
        found = index.units[id(pod)] = pod, _unit_of(pod, index)
    return found[1]


def _unit_of(pod: Pod, index: Index) -> Unit | NoUnit:
    own_id = f"{pod.metadata.namespace}/{pod.metadata.name}"
    ref = pod.metadata.controller
    if ref is None:
        return NoUnit(own_id, "no-owner", "a bare pod: nothing would bring it back")
    plugin = _plugin(pod)
    if plugin is None:
        return NoUnit(own_id, "no-owner", f"pods of a {ref.kind} are not restarted by this version")
    unit = plugin.unit(pod, index)
    return unit if isinstance(unit, NoUnit) else _without_strangers(unit, plugin)


def _without_strangers(unit: Unit, plugin: Workload) -> Unit:
    """The unit without pods that another plugin claims by their labels: no pod belongs to two units."""
    beyond = None if unit.beyond is None else _without_strangers(unit.beyond, plugin)
    pods = _own(unit.pods, plugin)
    return unit if (pods, beyond) == (unit.pods, unit.beyond) else replace(unit, pods=pods, beyond=beyond)


def _own(pods: tuple[Pod, ...], plugin: Workload) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if _plugin(pod) is plugin)


def members(recovery: Recovery, index: Index) -> tuple[Pod, ...]:
    """All pods of a recovery's unit that exist now."""
    plugin = _BY_KIND.get(recovery.spec.workload.kind)
    return () if plugin is None else _own(plugin.members(recovery, index), plugin)


def must_stand(recovery: Recovery) -> tuple[WorkloadRef, ...]:
    """The owners without which nobody would bring the pods back: the workload, and the controller of its pods."""
    plugin, spec = _BY_KIND.get(recovery.spec.workload.kind), recovery.spec
    if spec.controller is None or spec.controller.uid == spec.workload.uid or (plugin is not None and plugin.rebuilt):
        return (spec.workload,)
    return spec.workload, spec.controller


def ended(owner: Owner) -> tuple[str, str] | None:
    """Why this controller makes no pods any more: (reason, message), or None."""
    plugin = _BY_KIND.get(owner.kind)
    return None if plugin is None else plugin.ended(owner)
