"""Which unit goes first where not all can: MindIE MS, then decode and what has no such role, then prefill.

Without its coordinator a service answers nobody, without decode no request ends; prefill is what it can best do without
for a while. Sources: labels of MindIE Motor (`app`, `grt-group/deploy-server`), AIBrix and infer-operator role names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.core.recovery import Recovery
from reconciler.core.units import Index, Unit

_MANAGERS = frozenset({"mindie-ms-controller", "mindie-ms-coordinator"})
_DEPLOY_SERVER = "grt-group/deploy-server"
_PREFILL_GROUP = "2"
_ROLE_NAMES = ("role-name", "infer.huawei.com/instanceset-name")

Rank = tuple[int, str]


def rank_of_unit(unit: Unit) -> Rank:
    """Sorts units: the smaller goes first; ties by name."""
    places = [owner.metadata.labels for owner in unit.chain] + [pod.metadata.labels for pod in unit.pods]
    return _rank(places), unit.key


def rank_of_recovery(recovery: Recovery, index: Index) -> Rank:
    """Sorts open recoveries as their units; where the pods are gone, by what stands above them."""
    spec = recovery.spec
    refs = [spec.workload, *([spec.controller] if spec.controller is not None else [])]
    places = [owner.metadata.labels for ref in refs if (owner := index.state.owners.get(ref.uid)) is not None]
    places += [pod.metadata.labels for ref in refs for pod in index.by_controller.get(ref.uid, ())]
    return _rank(places), spec.unit


def _rank(places: Iterable[Mapping[str, str]]) -> int:
    prefill = False
    for labels in places:
        if labels.get("app") in _MANAGERS:
            return 0
        named = any("prefill" in labels.get(key, "").lower() for key in _ROLE_NAMES)
        prefill = prefill or named or labels.get(_DEPLOY_SERVER) == _PREFILL_GROUP
    return 2 if prefill else 1
