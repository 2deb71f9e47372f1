"""Whether a container runtime speaks on its socket: the first frame of its gRPC server, without a gRPC library.

A server of HTTP/2 (RFC 9113, 3.4) answers the client's preface with a SETTINGS frame; it takes a process that runs and
serves, and nothing of the runtime's own API, which needs no version and no permission beyond the socket's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
FRAME_HEAD_BYTES, TYPE_AT, SETTINGS = 9, 3, 4


class Silent(Exception):
    """Nobody serves there; the text says how that showed."""


async def hear(socket: Path, timeout_s: float) -> None:
    """Returns when a server has answered. Raises Silent."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(PREFACE + EMPTY_SETTINGS)
                head = await reader.readexactly(FRAME_HEAD_BYTES)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise Silent(f"no answer within {timeout_s:g} s") from None
    except asyncio.IncompleteReadError:
        raise Silent("the connection was closed without an answer") from None
    except OSError as exc:
        raise Silent(exc.strerror or str(exc)) from exc
    if head[TYPE_AT] != SETTINGS:
        raise Silent("what answers is no gRPC server")
