"""Checks workload manifests: labels that nobody would read, values that mean nothing, each with its line.

Pure: text in, problems out. Whether a cluster would save a workload is `npu-warden coverage`; this looks at what a
person is about to apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from console.cli.manifests_object import ManifestObject
from console.cli.manifests_rules import check_object
from console.cli.manifests_yaml import Document, Problem, documents, member, text_of

_MANIFEST = re.compile(r'^[\s{]*"?apiVersion"?\s*:', re.MULTILINE)


def is_manifest(text: str) -> bool:
    """Whether a file holds Kubernetes objects: it says apiVersion somewhere at the beginning of a line."""
    return _MANIFEST.search(text) is not None


def check(text: str) -> list[Problem]:
    """All problems of a manifest file of one or more documents, in order of their lines."""
    found: list[Problem] = []
    for document in documents(text):
        named = "" if document.root is None else document.name(document.root)
        found += [Problem(problem.line, problem.text, named) for problem in document.problems]
        if document.root is not None:
            found += _objects(document, document.root)
    return sorted(found, key=lambda problem: problem.line)


def holds_workload(text: str) -> bool:
    """Whether any object of the file is one whose pods the warden could look after, a pod or a group of them."""
    return any(
        ManifestObject(document, one).of_pods
        for document in documents(text)
        if document.root is not None
        for one in _each(document.root)
    )


def _each(root: yaml.Node) -> Iterator[yaml.Node]:
    """The objects of a document: itself, or the items of a List."""
    items = member(root, "items")
    if text_of(member(root, "kind")) == "List" and isinstance(items, yaml.SequenceNode):
        for item in items.value:
            yield from _each(item)
    else:
        yield root


def _objects(document: Document, root: yaml.Node) -> Iterator[Problem]:
    for one in _each(root):
        yield from _object(document, one)


def _object(document: Document, root: yaml.Node) -> Iterator[Problem]:
    if not text_of(member(root, "kind")) or not text_of(member(root, "apiVersion")):
        yield Problem(document.line(root), "not a Kubernetes object: it says no apiVersion or no kind")
    else:
        yield from check_object(document, root)
