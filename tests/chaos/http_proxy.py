"""Between one replica and the API server: passes requests on, spoils what the weather says, records every write.

A write is recorded with the server's own answer even where the replica never hears it. Plain HTTP towards the replica;
upstream may be TLS with a client certificate, as kube-apiserver wants it.
"""

import asyncio
import json
import random
import ssl
import time
import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.chaos.record import Write, write_of

HOP_HEADERS = frozenset({"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"})
TOO_MANY = 429
GONE = 410
CONFLICT = 409
LONGEST_HANG_S = 30.0


@dataclass
class Weather:
    """What happens to requests. Shares are of all requests (`refuse`: of those that the status can meet)."""

    latency_s: float = 0.0
    cut: bool = False
    """Every connection is reset without an answer."""
    hang: bool = False
    """Requests are taken and never answered nor passed on."""
    refuse: int = 0
    """This status instead of an answer; nothing is passed on. 409 meets writes only, 410 lists and watches only."""
    refuse_share: float = 0.0
    lose_share: float = 0.0
    """The request is carried out, its answer never comes."""
    halve_share: float = 0.0
    """The request is carried out, half of its answer comes."""


class HttpProxy:
    """`url` is where the replica connects. `weather` may be replaced at any time; `hold` stops single requests."""

    def __init__(self, name: str, upstream: str, *, tls: ssl.SSLContext | None = None, seed: int = 0) -> None:
        self.name = name
        self.url = ""
        self.weather = Weather()
        self.writes: list[Write] = []
        self.spoiled = 0
        self.held = asyncio.Event()
        """A request that `hold` wanted has come and stands still."""
        self._upstream, self._tls = upstream, tls
        self._random = random.Random(seed)
        self._wanted: tuple[str, tuple[str, ...]] | None = None
        self._let_go = asyncio.Event()
        self._connections: set[asyncio.Transport] = set()
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go.set()
        self.cut_connections()
        await self._runner.cleanup()
        assert self._session is not None
        await self._session.close()

    def cut_connections(self) -> None:
        """Reset what is open now; new connections are welcome."""
        for transport in list(self._connections):
            transport.abort()

    def hold(self, method: str, *parts: str) -> None:
        """The next request of this method whose path has all parts, and no subresource, stands still until `let_go`."""
        self._wanted = (method, parts)
        self.held.clear()
        self._let_go.clear()

    def let_go(self) -> None:
        """The held request arrives, whether anybody still waits for its answer or not."""
        self._let_go.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        weather, transport = self.weather, request.transport
        assert isinstance(transport, asyncio.Transport)
        self._connections.add(transport)
        try:
            body = await request.read()
            if weather.latency_s:
                await asyncio.sleep(weather.latency_s)
            if weather.cut:
                return self._reset(transport)
            if weather.hang:
                self.spoiled += 1
                await asyncio.sleep(LONGEST_HANG_S)
                return self._reset(transport)
            if self._meets(weather.refuse, request) and self._random.random() < weather.refuse_share:
                self.spoiled += 1
                return _refusal(weather.refuse)
            if self._is_held(request):
                # What is on the wire arrives although its sender is frozen or has given up.
                return await asyncio.shield(asyncio.ensure_future(self._held(request, body)))
            return await self._forward(request, body, weather, transport)
        finally:
            self._connections.discard(transport)

    def _reset(self, transport: asyncio.Transport) -> web.Response:
        self.spoiled += 1
        transport.abort()
        return web.Response(status=502)

    @staticmethod
    def _meets(status: int, request: web.Request) -> bool:
        if status == CONFLICT:
            return request.method in ("PUT", "PATCH", "DELETE")
        if status == GONE:
            return request.method == "GET" and "resourceVersion" in request.query
        return status > 0

    def _is_held(self, request: web.Request) -> bool:
        if self._wanted is None or request.method != self._wanted[0] or request.path.endswith("/status"):
            return False
        if not all(part in request.path for part in self._wanted[1]):
            return False
        self._wanted = None
        return True

    async def _held(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self.held.set()
        await self._let_go.wait()
        status, answer, kind = await self._send(request, body)
        return web.Response(status=status, body=answer, content_type=kind)

    async def _forward(
        self, request: web.Request, body: bytes, weather: Weather, transport: asyncio.Transport
    ) -> web.StreamResponse:
        if request.method == "GET" and request.query.get("watch"):
            return await self._stream(request)
        status, answer, kind = await self._send(request, body)
        if self._random.random() < weather.lose_share:
            return self._reset(transport)
        if self._random.random() < weather.halve_share:
            self.spoiled += 1
            half = web.StreamResponse(status=status, headers={"Content-Length": str(len(answer))})
            await half.prepare(request)
            await half.write(answer[: len(answer) // 2])
            transport.abort()
            return half
        return web.Response(status=status, body=answer, content_type=kind)

    async def _send(self, request: web.Request, body: bytes) -> tuple[int, bytes, str]:
        assert self._session is not None
        began = time.monotonic()
        try:
            async with self._session.request(
                request.method, self._upstream + request.path_qs, data=body or None, headers=self._headers(request)
            ) as response:
                answer = await response.read()
                status, kind = response.status, response.content_type
        except aiohttp.ClientError as exc:
            return 502, f"the API server is away: {exc}".encode(), "text/plain"
        if request.method != "GET":
            self.writes.append(write_of(self.name, began, request.method, request.path, body, status, answer))
        return status, answer, kind

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """A watch, for as long as both ends want it; where one end breaks it, the other sees it broken."""
        assert self._session is not None
        assert request.transport is not None
        answer = web.StreamResponse()
        try:
            async with self._session.get(self._upstream + request.path_qs, headers=self._headers(request)) as upstream:
                answer.set_status(upstream.status)
                answer.content_type = upstream.content_type
                await answer.prepare(request)
                async for chunk in upstream.content.iter_any():
                    if self.weather.cut:
                        raise ConnectionResetError
                    await answer.write(chunk)
        except (aiohttp.ClientError, ConnectionResetError):
            request.transport.abort()
        return answer

    def _headers(self, request: web.Request) -> dict[str, str]:
        passed = {key: value for key, value in request.headers.items() if key.lower() not in HOP_HEADERS}
        passed.pop("Authorization", None)
        return {**passed, "User-Agent": self.name, "Audit-ID": str(uuid.uuid4())}


def _refusal(status: int) -> web.Response:
    reasons = {CONFLICT: "Conflict", GONE: "Expired", TOO_MANY: "TooManyRequests", 500: "InternalError"}
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reasons[status],
        "message": f"the proxy says {status}",
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == TOO_MANY else {}
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)
