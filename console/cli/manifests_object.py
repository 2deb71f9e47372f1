"""One Kubernetes object under the magnifying glass: which of its steering labels count, and which do not."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from console.cli.manifests_labels import STEERING, meant
from console.cli.manifests_yaml import Document, Problem, member, pairs, text_of
from reconciler.core.resources import OWNERS

_WORKLOADS = frozenset((resource.group, resource.kind) for resource in OWNERS)
_PODS = frozenset({"Pod", "PodGroup"})
_TEMPLATES = frozenset({"template", "leaderTemplate", "workerTemplate"})
_INFER_GROUP = "mindcluster.huawei.com"
GRACE_KEY = "terminationGracePeriodSeconds"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A steering key as it stands in the object.

    path: to the mapping that holds it; lists add nothing to it. at_home: it is among the labels (or annotations) of an
    object or of a pod template, where it is read.
    """

    key: str
    written: str
    path: Path
    at_home: bool
    holder: yaml.Node
    node: yaml.Node
    value: yaml.Node

    @property
    def counts(self) -> bool:
        """Whether somebody reads it."""
        return self.at_home and self.written == self.key

    @property
    def text(self) -> str:
        return text_of(self.value)

    @property
    def in_role(self) -> bool:
        """In a pod template of a StormService's role."""
        return "roles" in self.path and self.path[-3] in _TEMPLATES


class ManifestObject:
    """What a walk through the object has found."""

    def __init__(self, document: Document, root: yaml.Node) -> None:
        self.document, self.root = document, root
        self.kind = text_of(member(root, "kind"))
        self._group = text_of(member(root, "apiVersion")).rpartition("/")[0]
        self.restarts = (self._group, self.kind) in _WORKLOADS
        self.app = text_of(member(member(member(root, "metadata"), "labels"), "app"))
        self.has_controller = member(member(root, "metadata"), "ownerReferences") is not None
        self.keys: list[Key] = []
        self.graces: list[tuple[yaml.Node, yaml.Node]] = []
        self.texts: list[tuple[str, yaml.Node]] = []
        self.asks_for_npus = False
        self._has_containers = False
        self._seen: set[int] = set()
        self._walk(root, ())
        self.infer = self._group == _INFER_GROUP or any(key.startswith("infer.huawei.com/") for key, _ in self.texts)

    @property
    def of_pods(self) -> bool:
        """Whether pods come of it, whether or not they would be restarted."""
        return self.restarts or self.infer or self.kind in _PODS or self._has_containers

    def _walk(self, node: yaml.Node, path: Path) -> None:
        if id(node) in self._seen:  # an alias: told where its anchor stands
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._walk(item, path)
        among = path[-1] if path else ""
        for key_node, value in pairs(node):
            written = text_of(key_node)
            key = _steering(written, among)
            if key is not None:
                self.keys.append(Key(key, written, path, self._at_home(key, path), node, key_node, value))
            if path[-2:] in (("metadata", "labels"), ("metadata", "annotations")):
                self.texts.append((written, value))
            if written == GRACE_KEY:
                self.graces.append((key_node, value))
            if written == "containers" and among != "properties":
                self._has_containers = True
            if among in ("limits", "requests") and written.startswith("huawei.com/"):
                self.asks_for_npus = True
            self._walk(value, (*path, written))

    def _at_home(self, key: str, path: Path) -> bool:
        if path[-2:] != ("metadata", STEERING[key].among):
            return False
        holder = path[-3] if len(path) > 2 else None
        # The infer-operator copies the labels of a role to its InstanceSet, which stands above the pods.
        in_template = holder in _TEMPLATES or (holder == "roles" and self._group == _INFER_GROUP)
        return holder is None or (in_template and STEERING[key].on_pods)

    def counting(self, key: str) -> list[Key]:
        return [found for found in self.keys if found.key == key and found.counts]

    def problem(self, node: yaml.Node, text: str) -> Problem:
        return Problem(self.document.line(node), text, self.document.name(self.root))


def _steering(written: str, among: str) -> str | None:
    if among in ("labels", "annotations"):
        return meant(written, loosely=True)
    if among in ("matchLabels", "nodeSelector"):
        return None
    key = meant(written, loosely=False)
    return key if key is not None and (STEERING[key].among == "labels" or key == written) else None
