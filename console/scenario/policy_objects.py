"""Reads the objects of a policy scenario: YAML as `kubectl get -o yaml` prints it, several documents to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from console.lab.cluster.patches import merge_patch
from console.scenario.common import ScenarioError
from console.scenario.policy_format import Merge
from console.scenario.virtual_objects import Object, spelling


class _Loader(yaml.CSafeLoader):
    """Times stay text, as in the API."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_objects(files: Iterable[Path]) -> list[Object]:
    return [obj for file in files for obj in _read(file)]


def merged(objects: Sequence[Object], merges: Sequence[Merge]) -> list[Object]:
    """The objects after the scenario's `merge`."""
    result = {spelling(obj): obj for obj in objects}
    for number, item in enumerate(merges):
        where = f"merge[{number}]"
        if item.target not in result:
            raise ScenarioError(f"{where}.target: {item.target} is not among the objects")
        result[item.target] = check_strings(merge_patch(result[item.target], item.patch), f"{where}.patch")
    return list(result.values())


def check_object(obj: Any, where: str) -> Object:
    """Raises ScenarioError unless this can be an object of the API."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise ScenarioError(f"{where}: not an object with apiVersion, kind and metadata")
    for key, holder in (("apiVersion", obj), ("kind", obj), ("name", obj["metadata"])):
        if not isinstance(holder.get(key), str) or not holder[key]:
            raise ScenarioError(f"{where}: {'metadata.name' if key == 'name' else key}: must be a string")
    return check_strings(obj, where)


def check_strings(obj: Object, where: str) -> Object:
    """Labels and annotations are text: `off` and `3` without quotes are not, and the API server would say so too."""
    for field in ("labels", "annotations"):
        for key, value in (obj["metadata"].get(field) or {}).items():
            if not isinstance(value, str):
                raise ScenarioError(f"{where}: metadata.{field}.{key}: {value!r} is not a string: quote it")
    return obj


def _read(file: Path) -> Iterator[Object]:
    try:
        documents = list(yaml.load_all(file.read_text(encoding="utf-8"), _Loader))
    except OSError as exc:
        raise ScenarioError(f"objects: {file}: cannot be read: {exc.strerror or exc}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ScenarioError(f"objects: {file}: not YAML: {' '.join(str(exc).split())}") from exc
    for number, document in enumerate(doc for doc in documents if doc is not None):
        where = f"{file.name}: document {number + 1}"
        if isinstance(document, dict) and document.get("kind") == "List":
            for place, item in enumerate(document.get("items") or []):
                yield check_object(item, f"{where}: items[{place}]")
        else:
            yield check_object(document, where)
