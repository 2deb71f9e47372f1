"""What the HTTP APIs of both daemons share: JSON, list envelopes, RFC 9457 errors, /metrics, a server with an owner."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def json_response(body: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def list_response(items: Iterable[Any]) -> web.Response:
    """`{"items": [...], "next": null}`: every list of both APIs has this shape."""
    return json_response({"items": list(items), "next": None})


def problem(status: int, title: str, detail: str) -> web.Response:
    """An error as RFC 9457 problem+json: `title` is what went wrong, `detail` what the caller can do."""
    body = msgspec.json.encode({"type": "about:blank", "title": title, "status": status, "detail": detail})
    return web.Response(body=body, status=status, content_type="application/problem+json")


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns aiohttp's own errors and any bug of a handler into problem+json; a bug is logged with its path."""
    try:
        return await handler(request)
    except web.HTTPException as exc:
        if exc.status < 400:
            raise
        return problem(exc.status, exc.reason, exc.text or exc.reason)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return problem(500, "Internal error", "the log has the details")


def metrics_handler(registry: CollectorRegistry) -> Handler:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics


def application(routes: Iterable[web.RouteDef]) -> web.Application:
    app = web.Application(middlewares=[problems])
    app.add_routes(routes)
    return app


def parse_listen(listen: str) -> tuple[str | None, int]:
    """`:9465` -> all addresses; `127.0.0.1:0` -> one address, any free port. Raises ValueError that shows the value."""
    host, sep, port = listen.rpartition(":")
    if not sep or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"listen: {listen!r} is not [address]:port")
    return host.strip("[]") or None, int(port)


@contextlib.asynccontextmanager
async def serving(app: web.Application, listen: str) -> AsyncIterator[int]:
    """Serve `app` while the block runs; yields the port (the real one where 0 was asked for)."""
    host, port = parse_listen(listen)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
