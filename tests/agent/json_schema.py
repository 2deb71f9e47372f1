"""The part of JSON Schema that msgspec writes, checked: enough to say whether a body is what a document promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
ANNOTATIONS = {"title", "description", "default"}
KNOWN = {"$ref", "anyOf", "enum", "const", "type", "properties", "required", "items", "additionalProperties"}


def problems(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> Iterator[str]:
    """Where `value` is not what `schema` says. A word of the language that this does not know is a problem too."""
    if unknown := schema.keys() - KNOWN - ANNOTATIONS:
        yield f"{at}: this checker does not know {unknown}"
    if "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from problems(value, target, document, at)
    if "anyOf" in schema and all(list(problems(value, one, document, at)) for one in schema["anyOf"]):
        yield f"{at}: {value!r} is none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict) and schema.get("type") == "object":
        properties = schema.get("properties", {})
        yield from (f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, member in value.items():
            if name in properties:
                yield from problems(member, properties[name], document, f"{at}.{name}")
            elif properties:
                yield f"{at}: {name} is not described"
    if isinstance(value, list) and "items" in schema:
        for number, member in enumerate(value):
            yield from problems(member, schema["items"], document, f"{at}[{number}]")


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
