"""A Redis or a Sentinel that answers what neither ever would: another server, a proxy, a connection out of step."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.command_stream import CommandStream, StreamAway
from agent.disk import Disk
from agent.metrics import Metrics
from agent.publisher import Publisher
from agent.store import Store
from shared.redis_client import connect
from shared.redis_url import RedisSettings

NODE = "node-a"
STREAMS = [
    b"+OK\r\n",
    b":0\r\n",
    b"$3\r\nabc\r\n",
    b",1.5\r\n",
    b"#t\r\n",
    b"(123\r\n",
    b"*1\r\n*0\r\n",
    b"%1\r\n+a\r\n+b\r\n",
    b"*1\r\n*2\r\n$1\r\na\r\n+OK\r\n",
    b"*2\r\n-ERR a\r\n-WRONG b\r\n",
    b"*1\r\n*2\r\n$1\r\na\r\n*1\r\n*2\r\n:5\r\n*2\r\n$7\r\ncommand\r\n$1\r\nx\r\n",
    b"*1\r\n*2\r\n$1\r\na\r\n*1\r\n*2\r\n$2\r\n\xff\xfe\r\n*2\r\n$7\r\ncommand\r\n$1\r\nx\r\n",
    b":abc\r\n",
    b"*1\r\n" * 5000,
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
]
MASTERS = [
    b":1\r\n",
    b"+OK\r\n",
    b"*1\r\n+a\r\n",
    b"*3\r\n+a\r\n+b\r\n+c\r\n",
    b"%1\r\n+a\r\n+b\r\n",
    b"*2\r\n_\r\n_\r\n",
    b"*2\r\n$9\r\n127.0.0.1\r\n$3\r\nabc\r\n",
    b"*2\r\n$9\r\n127.0.0.1\r\n$6\r\n999999\r\n",
    b"*2\r\n$9\r\n127.0.0.1\r\n*0\r\n",
    b"*2\r\n$2\r\n\xff\xfe\r\n$1\r\n1\r\n",
]


@contextlib.asynccontextmanager
async def answering(command: bytes, answer: bytes) -> AsyncIterator[int]:
    """A server that says OK to whatever a client tells of itself, and `answer` to `command`. Yields its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while said := await reader.read(65536):
                writer.write(b"+OK\r\n" * said.count(b"CLIENT"))
                if command in said.upper():
                    writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize("answer", STREAMS)
async def test_an_answer_that_is_no_stream_is_a_redis_that_is_away(answer: bytes) -> None:
    async with answering(b"XREAD", answer) as port:
        client = connect(RedisSettings(url=f"redis://127.0.0.1:{port}/0"), timeout_s=0.5)
        stream = CommandStream(client, node=NODE, timeout_s=0.5)
        for _ in range(2):
            with pytest.raises(StreamAway):
                await stream.new()
        await client.aclose()


@pytest.mark.parametrize("answer", MASTERS)
async def test_a_master_that_is_no_address_is_a_redis_that_is_away(answer: bytes, tmp_path: Path) -> None:
    async with answering(b"SENTINEL", answer) as port:
        client = connect(RedisSettings(url=f"redis+sentinel://127.0.0.1:{port}/main/0"), timeout_s=0.5)
        disk = Disk(Store(tmp_path), Metrics())
        publisher = Publisher(client, node=NODE, outbox=disk, metrics=Metrics(), timeout_s=0.5)
        publisher.offer(b"report")
        assert not await publisher.send()
        assert publisher.problem != "nothing sent yet"
        with pytest.raises(StreamAway):
            await CommandStream(client, node=NODE, timeout_s=0.5).new()
        await client.aclose()
        await disk.close()
