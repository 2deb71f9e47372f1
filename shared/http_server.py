"""The HTTP server of both daemons: whatever a client does, the loop goes on, memory is bounded and the end comes soon.

No request within IDLE_S, or a half one: closed. An answer that nobody reads: dropped after STUCK_S. More connections
than MAX_CONNECTIONS: the oldest makes room, so that a health check always gets in.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from aiohttp import web

from shared.aio import running

IDLE_S = 15.0
STUCK_S = 30.0
LOOK_EVERY_S = 2.0
MAX_CONNECTIONS = 200
LINGER_S = 1.0
"""A body that nobody asked for is read so long, then the connection is closed."""
SHUTDOWN_S = 0.5
"""For a request in progress, and as much again for its answer."""


def parse_listen(listen: str) -> tuple[str | None, int]:
    """`:9465` -> all addresses; `127.0.0.1:0` -> one address, any free port. Raises ValueError that shows the value."""
    host, sep, port = listen.rpartition(":")
    if not sep or not (port.isascii() and port.isdigit()) or int(port) > 65535 or "\0" in host:
        raise ValueError(f"listen: {listen!r} is not [address]:port")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"listen: {listen!r}: {host!r} is no address") from None
    return host.strip("[]") or None, int(port)


@contextlib.asynccontextmanager
async def serving(app: web.Application, listen: str) -> AsyncIterator[int]:
    """Serve `app` while the block runs; yields the port (the real one where 0 was asked for). Raises OSError."""
    host, port = parse_listen(listen)
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=IDLE_S, lingering_time=LINGER_S
    )
    await runner.setup()
    assert runner.server is not None
    connections = _Connections(runner.server)
    try:
        listener = await asyncio.get_running_loop().create_server(connections.new, host, port)
        try:
            async with running(connections.watch()):
                yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
    finally:
        await runner.cleanup()
        connections.drop_all()


class _Connections:
    """All open connections, oldest first."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._open: dict[_Connection, asyncio.Transport] = {}
        self._stuck_since: dict[_Connection, float] = {}

    def new(self) -> asyncio.Protocol:
        return _Connection(self, self._server())

    def opened(self, connection: _Connection, transport: asyncio.Transport) -> None:
        self._open[connection] = transport
        if len(self._open) > MAX_CONNECTIONS:
            self._drop(next(iter(self._open)))

    def lost(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        self._stuck_since.pop(connection, None)

    async def watch(self) -> None:
        """For ever: drop the connections whose client does not read."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            for connection, transport in list(self._open.items()):
                if not transport.get_write_buffer_size():
                    self._stuck_since.pop(connection, None)
                elif now - self._stuck_since.setdefault(connection, now) > STUCK_S:
                    self._drop(connection)

    def drop_all(self) -> None:
        """What is left after a clean end: answers that nobody has read."""
        for connection in list(self._open):
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        """At once, with what is unsent. `lost` follows in the next turn, but it counts no more from now on."""
        transport = self._open[connection]
        self.lost(connection)
        transport.abort()


class _Connection(asyncio.Protocol):
    """Hands everything on to aiohttp's handler, and keeps the transport that the handler forgets when it closes."""

    def __init__(self, connections: _Connections, handler: web.RequestHandler) -> None:
        self._connections, self._handler = connections, handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._handler.connection_made(transport)
        self._connections.opened(self, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.lost(self)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()
