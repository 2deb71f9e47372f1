"""HTTP clients that never read, never finish or never stop neither hold up the daemon nor its end."""

import asyncio
import contextlib
import os
import socket
import time

import pytest
from aiohttp import web

from shared import http_server
from shared.http_server import serving
from shared.web import application
from tests.waiting import eventually

BODY = b"x" * 200_000
HUGE = 20_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def big(_request: web.Request) -> web.Response:
    return web.Response(body=BODY)


@pytest.mark.parametrize("request_", [REQUEST * 50, REQUEST, b"GET /", b""])
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
            async with asyncio.timeout(30):
                assert (await reader.read()).endswith(BODY)
            writer.close()
            await writer.wait_closed()
            began = time.monotonic()
        assert time.monotonic() - began < http_server.IDLE_S


async def busy(_request: web.Request) -> web.Response:
    """What a large answer costs the loop: time."""
    until = time.monotonic() + 0.005
    while time.monotonic() < until:
        pass
    return web.Response(body=b"x")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's limits, for a test that shall not wait for them."""
    monkeypatch.setattr(http_server, "IDLE_S", 0.3)
    monkeypatch.setattr(http_server, "STUCK_S", 0.5)
    monkeypatch.setattr(http_server, "LOOK_EVERY_S", 0.1)


async def answered(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "begun", [b"", b"GE", b"GET / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"]
)
async def test_a_request_that_is_never_finished_is_given_up(begun: bytes) -> None:
    async with serving(application([web.get("/", big)]), "127.0.0.1:0") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        async with asyncio.timeout(5):
            answer = await reader.read()
        assert answer[:12] in (b"", b"HTTP/1.1 405")
        writer.close()
        await writer.wait_closed()


async def huge(_request: web.Request) -> web.Response:
    return web.Response(body=b"x" * HUGE)


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


def received(client: socket.socket) -> int:
    """How many bytes come until the other side has closed."""
    client.settimeout(5)
    count = 0
    while data := client.recv(1 << 20):
        count += len(data)
    return count


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_nobody_reads_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(application([web.get("/", huge)]), "127.0.0.1:0") as port:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(("127.0.0.1", port))
            before = descriptors()
            client.sendall(REQUEST)
            await eventually("the server's end is open", lambda: descriptors() == before + 1)
            await eventually("the server's end is closed", lambda: descriptors() == before)
            assert await asyncio.to_thread(received, client) < HUGE
    assert caplog.text == ""


async def test_the_oldest_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 5)
    async with contextlib.AsyncExitStack() as clients:
        port = await clients.enter_async_context(serving(application([web.get("/", big)]), "127.0.0.1:0"))
        hogs = [clients.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(30)]
        assert (await answered(port)).endswith(BODY)
        assert await asyncio.to_thread(received, hogs[0]) == 0


async def test_pipelined_work_leaves_the_loop_half_of_its_time() -> None:
    async with contextlib.AsyncExitStack() as clients:
        port = await clients.enter_async_context(serving(application([web.get("/", busy)]), "127.0.0.1:0"))
        for _ in range(20):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(REQUEST * 50)
        await answered(port)
        turns, began = 0, time.monotonic()
        while time.monotonic() - began < 0.5:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 500, "with a request in each turn there are 100 at most"
