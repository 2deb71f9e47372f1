"""The store behind a socket: plain HTTP on loopback, watches as streams of JSON lines, no authentication.

For tests it can be slow (``latency_s``) or gone (``down``: every connection is cut without an answer).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from console.lab.cluster.discovery import document
from console.lab.cluster.journal import Change, seen
from console.lab.cluster.problems import UNSERVED, Problem, bad_request, not_found_path
from console.lab.cluster.resources import Target, built_in, parse_path
from console.lab.cluster.selectors import Predicate, selector
from console.lab.cluster.store import Store

DEFAULT_WATCH_S = 1800.0
MAX_BODY_BYTES = 3 * 1024 * 1024  # of the API server


class ApiServer:
    """``async with ApiServer(store) as server:`` serves at ``server.url`` while the block runs."""

    def __init__(self, store: Store, *, port: int = 0) -> None:
        self.store = store
        self.url = ""
        self.latency_s = 0.0
        self.bookmark_s = 10.0
        """How often an idle watch that allows bookmarks gets one."""
        self._port = port
        self._down = False
        self._watches: dict[asyncio.Queue[Change | None], web.Request] = {}
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Cancelled with its client, so that a watch nobody reads ends at once.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)

    @property
    def down(self) -> bool:
        """An outage: open watches are cut and so is every request, until it is set back."""
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        self._down = down
        if down:
            self.cut_watches()

    @property
    def watching(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def cut_watches(self) -> None:
        """Break every open watch as a lost connection does; clients are expected to resume."""
        for queue, request in self._watches.items():
            _cut(request)
            queue.put_nowait(None)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for queue in self._watches:
            queue.put_nowait(None)
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.latency_s)
        if self._down:
            _cut(request)
            raise web.HTTPServiceUnavailable
        if request.path in ("/readyz", "/livez", "/healthz"):
            return web.Response(text="ok")
        if request.method == "GET" and (found := document(request.path, self.store.resources)):
            return _json(200, found, request.path)
        try:
            if request.method == "GET" and request.query.get("watch") in ("true", "1"):
                return await self._watch(request, parse_path(request.path, self.store.resources))
            body = _decoded(await request.read())
        except Problem as problem:
            return _json(problem.status, problem.body(), request.path)
        reply = self.store.request(
            request.method,
            request.path,
            params=dict(request.query),
            body=body,
            content_type=request.headers.get("Content-Type", "application/json"),
        )
        return _json(reply.status, reply.body, request.path)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        if target.name:
            raise not_found_path()
        query, resource = request.query, target.resource
        matches = selector(resource.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        deadline_s = asyncio.get_running_loop().time() + float(query.get("timeoutSeconds") or DEFAULT_WATCH_S)
        queue: asyncio.Queue[Change | None] = asyncio.Queue()

        def within(obj: dict[str, Any]) -> bool:
            return target.namespace in ("", obj["metadata"].get("namespace")) and matches(obj)

        # No await between the start of the stream and listening: nothing may fall between the two.
        try:
            first = self._first_lines(target, query.get("resourceVersion", ""), within)
        except Problem as problem:
            if problem.status != 410:
                raise
            first = [_line("ERROR", problem.body())]
            queue.put_nowait(None)
        unlisten = self.store.listen(lambda change: queue.put_nowait(change) if change.resource is resource else None)
        self._watches[queue] = request
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            await response.prepare(request)
            await response.write(b"".join(first))
            bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
            await self._stream(response, queue, target, within, deadline_s, bookmarks=bookmarks)
        except ConnectionResetError:
            pass  # the client has gone: nobody left to tell
        finally:
            unlisten()
            del self._watches[queue]
        return response

    def _first_lines(self, target: Target, version: str, within: Predicate) -> list[bytes]:
        if version in ("", "0"):
            objects = self.store.objects(target.resource.plural)
            return [_line("ADDED", obj) for obj in objects if within(obj)]
        if not version.isdigit():
            raise bad_request(f"resourceVersion: Invalid value: {version!r}")
        return list(_lines(self.store.watch_since(target.resource, int(version)), within))

    async def _stream(
        self,
        response: web.StreamResponse,
        queue: asyncio.Queue[Change | None],
        target: Target,
        within: Predicate,
        deadline_s: float,
        *,
        bookmarks: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait_s = min(self.bookmark_s, deadline_s - loop.time())
            try:
                async with asyncio.timeout(wait_s):
                    changes = [await queue.get()]
            except TimeoutError:
                if bookmarks:
                    await response.write(_bookmark(target, self.store.version))
                if loop.time() >= deadline_s:
                    return
                continue
            while not queue.empty():
                changes.append(queue.get_nowait())
            if lines := b"".join(_lines((c for c in changes if c), within)):
                await response.write(lines)
            if None in changes:
                return


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error


def _json(status: int, body: dict[str, Any], path: str) -> web.Response:
    # As in a real one: an unknown API outside the built-in groups is answered by nobody, so not with a Status.
    if body.get("message") == UNSERVED and path.startswith("/apis/") and not built_in(path.split("/")[2]):
        return web.Response(status=404, text="404 page not found\n")
    headers = {}
    if retry_after_s := (body.get("details") or {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(retry_after_s)
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)


def _lines(changes: Iterable[Change], within: Predicate) -> Iterable[bytes]:
    for change in changes:
        if kind := seen(change, within):
            yield _line(kind, change.object)


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def _bookmark(target: Target, version: int) -> bytes:
    resource = target.resource
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return _line("BOOKMARK", {**head, "metadata": {"resourceVersion": str(version)}})
