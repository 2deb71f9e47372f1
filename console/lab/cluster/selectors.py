"""Label and field selectors of list and watch: text in, predicate out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from console.lab.cluster.problems import bad_request

Predicate = Callable[[dict[str, Any]], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTS = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s!=,()]+)$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")

FIELDS = {
    "Pod": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase", "status.podIP"},
    "Node": {"spec.unschedulable"},
    "Namespace": {"status.phase"},
    "Secret": {"type"},
    "Event": {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
        "source",
    },
}


def selector(kind: str, labels: str = "", fields: str = "") -> Predicate:
    """One predicate of a labelSelector and a fieldSelector; 400 for what the API server would not understand."""
    tests = [_label_test(part.strip()) for part in _COMMA_OUTSIDE_PARENTHESES.split(labels) if part.strip()]
    tests += [_field_test(kind, part.strip()) for part in fields.split(",") if part.strip()]
    return lambda obj: all(test(obj) for test in tests)


def _labels(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _label_test(text: str) -> Predicate:
    if found := _SET.match(text):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    if found := _EQUAL.match(text):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda obj: _labels(obj).get(key) != value
        return lambda obj: _labels(obj).get(key) == value
    if found := _EXISTS.match(text):
        key, wanted = found["key"], not found["not"]
        return lambda obj: (key in _labels(obj)) == wanted
    raise bad_request(f"unable to parse labelSelector: {text!r}")


def _field_test(kind: str, text: str) -> Predicate:
    found = _EQUAL.match(text)
    if not found:
        raise bad_request(f"unable to parse fieldSelector: {text!r}")
    key, value, equal = found["key"], found["value"], found["op"] != "!="
    if key not in {"metadata.name", "metadata.namespace"} | FIELDS.get(kind, set()):
        raise bad_request(f"field label not supported: {key}")
    path = key.split(".")

    def test(obj: dict[str, Any]) -> bool:
        node: Any = obj
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        text_of = {None: "", True: "true", False: "false"}.get(node, node) if not isinstance(node, dict) else ""
        return (str(text_of) == value) == equal

    return test
