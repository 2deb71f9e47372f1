"""The one write to the retry ledger: in the version that was decided on, or as a new ConfigMap."""

from __future__ import annotations

from typing import Any

from reconciler.core.actions import WriteLedger
from reconciler.core.calls import APPLY_PATCH, FIELD_MANAGER, MERGE_PATCH, Call, Step
from reconciler.core.configmap_steps import written
from reconciler.core.resources import RETRY_LEDGER

_NAMESPACE, _NAME = str(RETRY_LEDGER.namespace), str(RETRY_LEDGER.name)
_PATH = RETRY_LEDGER.path(_NAMESPACE, _NAME)


def write_ledger(action: WriteLedger) -> Step:
    """A new ConfigMap is applied and not posted: rights can then name it, those to POST are to all ConfigMaps.

    An apply that finds another's content there is refused with 409, as a patch of another version is.
    """
    if action.version is None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NAME}}
        body["metadata"]["namespace"] = _NAMESPACE
        params = (("fieldManager", FIELD_MANAGER),)
        reply = yield Call("PATCH", _PATH, body | {"data": dict(action.data)}, APPLY_PATCH, params)
    else:
        patch = {"metadata": {"resourceVersion": action.version}, "data": dict(action.data)}
        reply = yield Call("PATCH", _PATH, patch, MERGE_PATCH)
    what = f"write of the retry ledger {_NAMESPACE}/{_NAME}"
    if reply.status == 404 and action.version is None:
        what += f"; without namespace {_NAMESPACE} a failed pod ends its AscendJob: create it"
    return (yield from written(reply, RETRY_LEDGER, _PATH, what))
