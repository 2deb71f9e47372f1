"""The log of changes behind every watch, and how a change looks through a selector."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from console.lab.cluster.problems import Problem
from console.lab.cluster.resources import Resource
from console.lab.cluster.selectors import Predicate

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One write. ``object`` is the state after it, of a deletion the last one under the deletion's version."""

    resource_version: int
    type: ChangeType
    resource: Resource
    object: dict[str, Any]
    previous: dict[str, Any] | None = None


Listener = Callable[[Change], None]


class Journal:
    """Keeps the newest ``keep`` changes; a watch that starts before them is told 410 and lists again."""

    def __init__(self, keep: int) -> None:
        self._changes: deque[Change] = deque(maxlen=keep)
        self._listeners: list[Listener] = []
        self._forgotten = 0

    def append(self, change: Change) -> None:
        """Record and tell every listener, in the order of writes."""
        if len(self._changes) == self._changes.maxlen:
            self._forgotten = self._changes[0].resource_version
        self._changes.append(change)
        for listener in list(self._listeners):
            listener(change)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` at every change from now on; the answer ends it. It must not block nor write."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def since(self, resource: Resource, resource_version: int) -> list[Change]:
        """The changes of one kind after a version, oldest first; 410 Expired when some of them are forgotten."""
        if resource_version < self._forgotten:
            raise Problem(410, f"too old resource version: {resource_version} ({self._forgotten})")
        return [c for c in self._changes if c.resource_version > resource_version and c.resource is resource]

    def compact(self) -> None:
        """Forget everything, as etcd does after five minutes."""
        if self._changes:
            self._forgotten = self._changes[-1].resource_version
            self._changes.clear()


def seen(change: Change, matches: Predicate) -> ChangeType | None:
    """What a watch with a selector is told: an object that begins to match is ADDED, one that ceases to is DELETED."""
    was = change.previous is not None and matches(change.previous)
    if change.type == "DELETED":
        return "DELETED" if was else None
    now = matches(change.object)
    if now:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None
