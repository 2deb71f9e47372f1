"""Between the daemons and Redis: a TCP proxy that can be slow, stand still, reset, or break off in the middle."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

CHUNK = 64 << 10


class TcpProxy:
    """`port` on loopback leads to `upstream`. The switches may be turned at any time."""

    def __init__(self, upstream: int) -> None:
        self.port = 0
        self.latency_s = 0.0
        self.spoiled = 0
        self._upstream = upstream
        self._refuses = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._break_after: int | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.fair()
        self.reset()
        await self._server.wait_closed()

    def fair(self) -> None:
        """No toxics."""
        self.latency_s, self._refuses, self._break_after = 0.0, False, None
        self._flows.set()

    def reset(self) -> None:
        """Every open connection is reset; new ones are welcome."""
        self.spoiled += len(self._open)
        for writer in list(self._open):
            writer.transport.abort()

    def cut(self) -> None:
        """Reset, and no new connection until `fair`."""
        self._refuses = True
        self.reset()

    def hang(self) -> None:
        """Connections stand, and not a byte passes until `fair`."""
        self._flows.clear()

    def break_answers(self, after: int) -> None:
        """Every connection is reset after so many bytes of answers, in the middle of whatever they are."""
        self._break_after = after

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self.spoiled += 1
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, up_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, up_writer, answers=False))
                group.create_task(self._pump(up_reader, writer, answers=True))
        except* OSError:
            pass  # reset by one side or by us: both ends learn of it below
        finally:
            for end in (writer, up_writer):
                self._open.discard(end)
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        passed = 0
        while chunk := await reader.read(CHUNK):
            await self._flows.wait()
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            limit = self._break_after
            if answers and limit is not None and passed + len(chunk) > limit:
                self.spoiled += 1
                writer.write(chunk[: max(0, limit - passed)])
                with contextlib.suppress(OSError):
                    await writer.drain()
                break
            passed += len(chunk)
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError  # half-closed is closed: ends the other direction too
