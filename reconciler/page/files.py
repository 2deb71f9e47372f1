"""The page's files, as they lie in `static`: read once, sent with a policy under which nothing else can run.

Every address in them is relative, so the page also works behind a path: `kubectl proxy`, an ingress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""No inline script or style, nothing from elsewhere, and no text of the cluster that could become markup."""


class _File(NamedTuple):
    body: bytes
    content_type: str
    tag: str


def routes(opening: Callable[[], None]) -> list[web.RouteDef]:
    """`/` and `/page/NAME`. opening: told that somebody opens the page. Raises OSError where the files are missing."""
    files = {path.name: _read(path) for path in sorted(STATIC.iterdir()) if path.suffix in TYPES}

    async def index(request: web.Request) -> web.Response:
        opening()
        return _answer(request, files["index.html"])

    async def file(request: web.Request) -> web.Response:
        found = files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _answer(request, found)

    return [web.get("/", index), web.get("/page/{name}", file)]


def _read(path: Path) -> _File:
    body = path.read_bytes()
    return _File(body, TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:24])


def _answer(request: web.Request, file: _File) -> web.Response:
    known = any(one.value == file.tag for one in request.if_none_match or ())
    response = (
        web.Response(status=304)
        if known
        else web.Response(body=file.body, content_type=file.content_type, charset="utf-8")
    )
    response.headers.update(HEADERS)
    response.headers["ETag"] = f'"{file.tag}"'
    return response
