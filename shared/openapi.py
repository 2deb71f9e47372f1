"""Routes described once: from one table come the handlers of an API and its OpenAPI document.

Schemas are those of the msgspec structs that the handlers answer with, so the document cannot say something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from shared.etag import unless_known
from shared.version import VERSION
from shared.web import PROBLEM_JSON, Handler, Problem, json_response, problem

TEXT = "text/plain"
STREAM = "text/event-stream"
DOCUMENT = "/openapi.json"
_NO_JSON = (TEXT, STREAM)
_REF = "#/components/schemas/{name}"


Values = tuple[str, ...] | range | None


@dataclass(frozen=True, slots=True)
class Route:
    """One GET route.

    answer: type of the JSON body, or TEXT or STREAM. also: further statuses with that same body. query: values that a
    parameter may have (words, or a range of whole numbers), None = any; a parameter that is not named here is refused.
    parameters: what those in the path are.
    """

    path: str
    handler: Handler
    summary: str
    answer: Any
    also: tuple[int, ...] = ()
    query: Mapping[str, Values] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


def serve(title: str, routes: Sequence[Route]) -> list[web.RouteDef]:
    """The routes for an application, with the document that describes them and itself."""

    async def describe(_request: web.Request) -> web.StreamResponse:
        return json_response(text)

    table = [*routes, Route(DOCUMENT, describe, "This document (OpenAPI 3.1).", dict[str, Any])]
    text = document(title, table)
    return [web.get(route.path, _checked(route)) for route in table]


def document(title: str, routes: Sequence[Route]) -> dict[str, Any]:
    types = [route.answer for route in routes if route.answer not in _NO_JSON]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    shapes = iter(schemas)
    described = [(route, {} if route.answer in _NO_JSON else next(shapes)) for route in routes]
    error = {"description": "an error (RFC 9457)", "content": {PROBLEM_JSON: {"schema": next(shapes)}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": VERSION},
        "paths": {route.path: {"get": _operation(route, schema, error)} for route, schema in described},
        "components": {"schemas": components},
    }


def _operation(route: Route, schema: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    if route.answer in _NO_JSON:
        content: dict[str, Any] = {route.answer: {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": schema}}
    answers: dict[str, Any] = {"200": {"description": route.summary, "content": content}}
    if route.answer not in _NO_JSON:
        answers["304"] = {"description": "what If-None-Match names is still true"}
    for status in route.also:
        answers[str(status)] = {
            "description": "the same, or an error (RFC 9457)",
            "content": content | error["content"],
        }
    return {
        "summary": route.summary,
        "parameters": [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": route.parameters[name],
                    "schema": {"type": "string"},
                }
                for name in re.findall(r"{(\w+)}", route.path)
            ),
            *({"name": name, "in": "query", "schema": _schema(values)} for name, values in route.query.items()),
        ],
        "responses": answers | {"default": error},
    }


def _schema(values: Values) -> dict[str, Any]:
    if isinstance(values, range):
        return {"type": "integer", "minimum": values.start, "maximum": values.stop - 1}
    return {"type": "string"} | ({"enum": list(values)} if values else {})


def _bad_value(value: str, values: Values) -> str | None:
    """Why a parameter cannot have this value."""
    if isinstance(values, range):
        fits = value.isascii() and value.isdigit() and len(value) < 10 and int(value) in values
        return None if fits else f"is no whole number {values.start}..{values.stop - 1}"
    return None if values is None or value in values else f"is none of {', '.join(values)}"


def _checked(route: Route) -> Handler:
    """The handler, asked only with parameters it has; an answer that the client has already is not sent again."""

    async def handle(request: web.Request) -> web.StreamResponse:
        for name, value in request.query.items():
            if name not in route.query:
                known = ", ".join(route.query) or "none"
                return problem(400, "Bad query", f"{name}: unknown parameter; {route.path} has {known}")
            if (why := _bad_value(value, route.query[name])) is not None:
                return problem(400, "Bad query", f"{name}: {value[:40]!r} {why}")
        return unless_known(request, await route.handler(request))

    return handle
