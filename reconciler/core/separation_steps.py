"""The one write to the list of separated dies: in the version that was decided on, or as a new ConfigMap."""

from __future__ import annotations

from typing import Any

from reconciler.core.actions import KeepSeparations
from reconciler.core.calls import APPLY_PATCH, FIELD_MANAGER, MERGE_PATCH, Call, Step, failed
from reconciler.core.configmap_steps import written
from reconciler.core.resources import SEPARATED

_NAMESPACE, _NAME = str(SEPARATED.namespace), str(SEPARATED.name)
_PATH = SEPARATED.path(_NAMESPACE, _NAME)


def keep_separations(action: KeepSeparations) -> Step:
    """Others' entries stay: only what is named is set or taken off.

    A new ConfigMap is applied, because rights can name it then, and empty, because a second apply of another leader
    takes off what the first has set.
    """
    if action.config is None:
        head: dict[str, Any] = {"name": _NAME, "namespace": _NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head}
        made = yield Call("PATCH", _PATH, body, APPLY_PATCH, (("fieldManager", FIELD_MANAGER),))
        if not made.ok:
            return failed(made, f"creation of ConfigMap {_NAMESPACE}/{_NAME}")
        version = made.body["metadata"]["resourceVersion"]
    else:
        version = action.config.metadata.resource_version
    data: dict[str, str | None] = {**action.entries, **dict.fromkeys(action.over)}
    patch = {"metadata": {"resourceVersion": version}, "data": data}
    reply = yield Call("PATCH", _PATH, patch, MERGE_PATCH)
    what = f"write of ConfigMap {_NAMESPACE}/{_NAME}: a separated die would be forgotten with its agent's state"
    return (yield from written(reply, SEPARATED, _PATH, what))
