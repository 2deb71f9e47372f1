"""Pods by node and by controller, kept from round to round: a change costs what has changed.

Objects are never changed, they are replaced: what is the same object as in the last snapshot is where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from reconciler.core.objects import Owner, Pod

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"

_T = TypeVar("_T")

_by_key = attrgetter("metadata.namespace", "metadata.name")
_by_name = attrgetter("metadata.name")


def group_key(pod: Pod) -> str | None:
    """Key of the PodGroup that a pod names, by annotation or label."""
    name = pod.metadata.annotations.get(GROUP_ANNOTATION) or pod.metadata.labels.get(GROUP_ANNOTATION)
    return f"{pod.metadata.namespace}/{name}" if name else None


class Tables:
    """by_node: in the order of their keys. by_controller: by its UID, in the order of their names.

    touched: UIDs of the controllers of which something is another than in the snapshot before: they themselves, their
    pods, or the PodGroups that they own or their pods name.

    Of one snapshot; `follow` makes them those of the next. A list that a change concerns is replaced, never changed.
    """

    def __init__(self) -> None:
        self.by_node: dict[str, list[Pod]] = {}
        self.by_controller: dict[str, list[Pod]] = {}
        self.touched: set[str] = set()
        self._pods: Mapping[str, Pod] = {}
        self._owners: Mapping[str, Owner] = {}
        self._groups: Mapping[str, Owner] = {}
        self._names: dict[str, set[str]] = {}
        """Keys of PodGroups by the controller whose pods name them."""
        self._namers: dict[str, set[str]] = {}
        """The other way round."""

    def follow(self, pods: Mapping[str, Pod], owners: Mapping[str, Owner], groups: Mapping[str, Owner]) -> None:
        gone, fresh = _changes(self._pods, pods)
        _moved(self.by_node, _split(gone, _node), _split(fresh, _node), _by_key)
        moved = _moved(self.by_controller, _split(gone, _controller), _split(fresh, _controller), _by_name)
        for uid in moved:
            self._rename(uid)
        self.touched = moved
        for changes in _changes(self._owners, owners):
            self.touched.update(owner.metadata.uid for owner in changes)
        for changes in _changes(self._groups, groups):
            for group in changes:
                self.touched.update(ref.uid for ref in group.metadata.owner_references)
                self.touched |= self._namers.get(group.metadata.key, set())
        self._pods, self._owners, self._groups = pods, owners, groups

    def _rename(self, uid: str) -> None:
        for name in self._names.pop(uid, ()):
            self._namers[name].discard(uid)
            if not self._namers[name]:
                del self._namers[name]
        named = {key for pod in self.by_controller.get(uid, ()) if (key := group_key(pod)) is not None}
        if named:
            self._names[uid] = named
        for name in named:
            self._namers.setdefault(name, set()).add(uid)


def _changes(before: Mapping[str, _T], after: Mapping[str, _T]) -> tuple[list[_T], list[_T]]:
    """(what is not there any more, what is there now), an object that was replaced in both."""
    fresh = [item for key, item in after.items() if before.get(key) is not item]
    if not fresh and len(before) == len(after):
        return [], fresh
    return [item for key, item in before.items() if after.get(key) is not item], fresh


def _node(pod: Pod) -> str | None:
    return pod.node


def _controller(pod: Pod) -> str | None:
    ref = pod.metadata.controller
    return None if ref is None else ref.uid


def _split(pods: Iterable[Pod], place: Callable[[Pod], str | None]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if key := place(pod):
            found.setdefault(key, []).append(pod)
    return found


def _moved(
    table: dict[str, list[Pod]],
    gone: Mapping[str, Sequence[Pod]],
    fresh: Mapping[str, Sequence[Pod]],
    order: Callable[[Pod], Any],
) -> set[str]:
    """Keys of the lists that were replaced."""
    keys = gone.keys() | fresh.keys()
    for key in keys:
        old = {id(pod) for pod in gone.get(key, ())}
        row = [pod for pod in table.get(key, ()) if id(pod) not in old]
        row += fresh.get(key, ())
        if row:
            table[key] = sorted(row, key=order)
        else:
            del table[key]
    return keys
