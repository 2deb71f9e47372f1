"""A small asynchronous Kubernetes client for the stand-in operators: plain objects in and out, any API server.

It knows no kinds beyond the lab's table and needs no generated code, so the same operators run against the lab and
against a real control plane.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from console.lab.cluster.patches import JSON_PATCH, MERGE_PATCH
from console.lab.cluster.resources import Resource

REQUEST_TIMEOUT_S = 10.0
WATCH_TIMEOUT_S = 300
TLS_GOODBYE_S = 0.25
MAX_LINE_BYTES = 8 * 1024 * 1024

Object = dict[str, Any]


@dataclass
class ApiError(Exception):
    """The API server refused: HTTP status, the Status object's reason and message, and what was asked."""

    status: int
    reason: str
    message: str
    request: str

    def __str__(self) -> str:
        return f"{self.request}: {self.status} {self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is and who asks: a kubeconfig reduced to what is used. ``tls`` None = the system's roots."""

    url: str
    token: str = ""
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: Object


class Client:
    """``async with Client(access) as api:``; every call raises ApiError for what the server refuses,
    aiohttp.ClientError or TimeoutError where it cannot be reached."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        self._session = aiohttp.ClientSession(
            self._access.url,
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=self._access.tls if self._access.tls is not None else True),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            read_bufsize=MAX_LINE_BYTES,  # a watch event is one line
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            if self._access.tls is not None:
                # aiohttp does not wait for the TLS goodbye of connections that a cancelled request let go of.
                await asyncio.sleep(TLS_GOODBYE_S)

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Object:
        """Any request; for what the methods below do not cover."""
        data = None if body is None else msgspec.json.encode(body)
        async with self._open(method, path, data=data, headers={"Content-Type": content_type}) as response:
            raw = await response.read()
            if response.status >= 400:
                raise _error(method, path, raw, response.status)
            answer: Object = msgspec.json.decode(raw)
            return answer

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """One object; ApiError 404 when there is none."""
        return await self.request("GET", resource.path(namespace, name))

    async def list_all(self, resource: Resource, namespace: str = "") -> tuple[list[Object], str]:
        """All objects of a kind (in a namespace) and the resource version to watch from."""
        found = await self.request("GET", resource.path(namespace))
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**head, **item} for item in found["items"]], found["metadata"]["resourceVersion"]

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create in the namespace that the object names."""
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.request("POST", resource.path(obj["metadata"].get("namespace", "")), full)

    async def merge(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: str = ""
    ) -> Object:
        """A JSON merge patch."""
        return await self.request("PATCH", resource.path(namespace, name, subresource), patch, MERGE_PATCH)

    async def json_patch(self, resource: Resource, namespace: str, name: str, operations: list[Object]) -> Object:
        """A JSON patch; ApiError 422 when a ``test`` fails."""
        return await self.request("PATCH", resource.path(namespace, name), operations, JSON_PATCH)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> Object:
        """Delete; with ``uid`` only that incarnation (ApiError 409 otherwise)."""
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self.request("DELETE", resource.path(namespace, name), options)

    async def watch(
        self, resource: Resource, version: str, namespace: str = "", *, labels: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Changes after ``version`` until the server ends the stream; ApiError 410 when the version is too old."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
            "labelSelector": labels,
        }
        path = resource.path(namespace)
        # The server ends the stream first; later only a connection that died unnoticed is still silent.
        timeout = aiohttp.ClientTimeout(total=WATCH_TIMEOUT_S + REQUEST_TIMEOUT_S, sock_connect=REQUEST_TIMEOUT_S)
        async with self._open("GET", path, params=params, timeout=timeout) as response:
            if response.status >= 400:
                raise _error("watch", path, await response.read(), response.status)
            try:
                while line := await response.content.readline():
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        status = event["object"].get("code", 500)
                        raise _error("watch", path, msgspec.json.encode(event["object"]), status)
                    yield WatchEvent(event["type"], event["object"])
            finally:
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()  # nothing more to say to an endless stream

    def _open(self, method: str, path: str, **options: Any) -> Any:
        if self._session is None:
            raise RuntimeError("the client is used outside its `async with` block")
        return self._session.request(method, path, **options)


def _error(method: str, path: str, raw: bytes, status: int) -> ApiError:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        found = {"message": raw.decode(errors="replace")}
    details: Mapping[str, Any] = found if isinstance(found, dict) else {}
    return ApiError(status, str(details.get("reason", "")), str(details.get("message", "")), f"{method} {path}")
