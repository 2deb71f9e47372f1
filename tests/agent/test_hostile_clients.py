"""HTTP clients that never read and never finish do not keep the daemon from ending."""

import asyncio
import contextlib
import socket
import time

import pytest
from aiohttp import web

from shared.web import application, serving

BODY = b"x" * 200_000


async def big(_request: web.Request) -> web.Response:
    return web.Response(body=BODY)


@pytest.mark.parametrize(
    "request_", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /", b""]
)
async def test_clients_that_never_read_do_not_hold_up_the_end(request_: bytes) -> None:
    async with contextlib.AsyncExitStack() as clients:
        async with serving(application([web.get("/", big)]), "127.0.0.1:0") as port:
            for _ in range(40):
                client = clients.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                client.connect(("127.0.0.1", port))
                client.sendall(request_)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            async with asyncio.timeout(5):
                assert (await reader.read()).endswith(BODY)
            writer.close()
            await writer.wait_closed()
            began = time.monotonic()
        assert time.monotonic() - began < 3
