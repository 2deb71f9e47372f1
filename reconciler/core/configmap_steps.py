"""What the writes to our ConfigMaps share: each is known by a kind of its own, and who loses a race reads anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.core.calls import Call, Outcome, Reply, Step, failed
from reconciler.core.resources import Resource


def written(reply: Reply, resource: Resource, path: str, what: str) -> Step:
    """The end of a write. reply: its answer; what: was written, and what it means that it was not."""
    if reply.ok:
        return Outcome(True, seen=(_known(reply.body, resource),))
    if reply.status in (409, 422):
        fresh = yield Call("GET", path)
        if fresh.ok:
            return failed(reply, what, _known(fresh.body, resource))
    return failed(reply, what)


def _known(body: Mapping[str, Any], resource: Resource) -> dict[str, Any]:
    """Under the kind by which it is told from all other ConfigMaps."""
    return {**body, "kind": resource.kind}
