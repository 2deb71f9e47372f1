"""What the HTTP APIs of both daemons share: JSON, list envelopes, RFC 9457 errors, /metrics, an application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

PROBLEM_JSON = "application/problem+json"
LONGEST_REST_S = 0.02


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Every list of both APIs. `next`: where the rest is, None = this is all."""

    items: Sequence[T]
    next: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """An error (RFC 9457): `title` is what went wrong, `detail` what the caller can do."""

    type: str
    title: str
    status: int
    detail: str


def json_response(body: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def list_response(items: Iterable[Any]) -> web.Response:
    return json_response(Page(list(items)))


def problem(status: int, title: str, detail: str) -> web.Response:
    body = msgspec.json.encode(Problem("about:blank", title, status, detail))
    return web.Response(body=body, status=status, content_type=PROBLEM_JSON)


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns aiohttp's own errors and any bug of a handler into problem+json; a bug is logged with its path."""
    try:
        return await handler(request)
    except web.HTTPException as exc:
        if exc.status < 400:
            raise
        response = problem(exc.status, exc.reason, _advice(request, exc))
        if "Allow" in exc.headers:
            response.headers["Allow"] = exc.headers["Allow"]
        return response
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return problem(500, "Internal error", "the log has the details")


def _advice(request: web.Request, exc: web.HTTPException) -> str:
    if isinstance(exc, web.HTTPMethodNotAllowed):
        return f"{request.method} is not for {request.path}; it takes {', '.join(sorted(exc.allowed_methods))}"
    if isinstance(exc, web.HTTPNotFound):
        return f"there is nothing at {request.path}"
    return exc.text or exc.reason


class _Pace:
    """Requests begin one by one, in the order of their arrival, with a rest after each as long as it took: thousands of
    pipelined ones cannot crowd out the daemon's own work. Once the server ends, those that wait are turned away."""

    def __init__(self) -> None:
        self._begins = asyncio.Lock()
        self._took_s = 0.0
        self._ending = False

    def middleware(self) -> Middleware:
        @web.middleware
        async def wait_for_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
            async with self._begins:
                if not self._ending:
                    await asyncio.sleep(min(self._took_s, LONGEST_REST_S))
            if self._ending:
                return problem(503, "Ending", "this process is being stopped")
            began = time.monotonic()
            try:
                return await handler(request)
            finally:
                self._took_s = time.monotonic() - began

        return wait_for_turn

    async def end(self, _app: web.Application) -> None:
        self._ending = True


def metrics_handler(registry: CollectorRegistry) -> Handler:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics


def application(routes: Iterable[web.RouteDef]) -> web.Application:
    pace = _Pace()
    app = web.Application(middlewares=[problems, pace.middleware()])
    app.on_shutdown.append(pace.end)
    app.add_routes(routes)
    return app
