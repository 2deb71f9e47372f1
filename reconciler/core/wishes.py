"""What people ask of the warden with kubectl or its command: found in a state, and told as Events with who and why.

`npu-warden` signs a reason with its user (`... (by alice)`). A wish made with kubectl carries no name: the API server's
managedFields say which program wrote it, and its audit log says the rest. Source: metav1.ManagedFieldsEntry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.core.calls import FIELD_MANAGER, Call
from reconciler.core.events import event
from reconciler.core.resources import CONTROL, NODE
from reconciler.core.state import State
from shared.model import Instant
from shared.names import CONTROL_CONFIGMAP, ISOLATE_ANNOTATION, NAMESPACE, OPT_OUT_LABEL

PAUSE, OPT_OUT, ISOLATE = "pause", "opt-out", "isolate"
_SIGNED = re.compile(r"\(by [^)]+\)")
_TELLS = {PAUSE: ("Paused", "Resumed"), OPT_OUT: ("OptedOut", "OptedIn"), ISOLATE: ("IsolateAsked", "IsolateWithdrawn")}
_FIELDS = {
    PAUSE: ("data", "paused"),
    OPT_OUT: ("metadata", "labels", OPT_OUT_LABEL),
    ISOLATE: ("metadata", "annotations", ISOLATE_ANNOTATION),
}
_SAYS = {
    PAUSE: ("the warden taints and restarts nothing until it is resumed", "the warden goes on"),
    OPT_OUT: (f"label {OPT_OUT_LABEL}: the warden leaves this node alone", "the warden looks after this node again"),
    ISOLATE: ("a person wants new work kept away from this node", "nobody wants this node isolated by hand any more"),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """what: pause | opt-out | isolate. name: of the node, or of the ConfigMap that pauses. why: as the person says."""

    what: str
    name: str
    why: str = ""

    @property
    def path(self) -> str:
        """Where the object that carries it is."""
        return CONTROL.path(NAMESPACE, self.name) if self.what == PAUSE else NODE.path("", self.name)


def wishes_of(state: State) -> dict[tuple[str, str], Wish]:
    """All that stand, by what and name. A release is none of them: it is fulfilled and told at once (NPUReleased)."""
    found = [] if state.paused is None else [Wish(PAUSE, CONTROL_CONFIGMAP, state.paused)]
    for name, node in state.nodes.items():
        if node.opted_out:
            found.append(Wish(OPT_OUT, name))
        if why := node.metadata.annotations.get(ISOLATE_ANNOTATION):
            found.append(Wish(ISOLATE, name, why))
    return {(wish.what, wish.name): wish for wish in found}


def asked_by(obj: Mapping[str, Any], what: str, why: str) -> str:
    """Who made (or withdrew) the wish, as far as the object's managedFields tell; "" where its own text does."""
    return "" if is_signed(why) else writer_of(obj, *_FIELDS[what])


def is_signed(why: str) -> bool:
    """Whether the reason says whose it is, as `npu-warden` writes it."""
    return _SIGNED.search(why) is not None


def writer_of(obj: Mapping[str, Any], *field: str) -> str:
    """The program that wrote a field last, or, when the field is gone, that wrote the object last; "" for the warden
    itself, which takes wishes off that it has fulfilled."""
    entries = [entry for entry in (obj.get("metadata") or {}).get("managedFields") or () if isinstance(entry, dict)]
    entries = [entry for entry in entries if not entry.get("subresource")]
    owners = [entry for entry in entries if _owns(entry.get("fieldsV1"), field)]
    newest = max(owners or entries, key=lambda entry: str(entry.get("time", "")), default={})
    manager = str(newest.get("manager", ""))
    if manager == FIELD_MANAGER:
        return "the npu-warden command" if owners or field[0] == "data" else ""
    return f"somebody with {manager or 'kubectl'}"


def _owns(fields: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
    return fields is not None


def wish_event(wish: Wish, obj: Mapping[str, Any], *, stands: bool, now: Instant) -> Call:
    """The Event on the object that carries the wish, or that carried it."""
    meta = obj.get("metadata") or {}
    reason, says = _TELLS[wish.what][not stands], _SAYS[wish.what][not stands]
    why = wish.why if stands else ""
    by = asked_by(obj, wish.what, why)
    if not stands and wish.what == PAUSE and (obj.get("data") or {}).get("paused"):
        why, by = "its time is over", ""  # a pause with an end: nobody has written anything
    text = "; ".join(part for part in (says, why, by and f"by {by}") if part)
    kind, namespace = ("ConfigMap", NAMESPACE) if wish.what == PAUSE else ("Node", "")
    return event(kind, namespace, wish.name, meta.get("uid", ""), reason, text, "Normal", now)
