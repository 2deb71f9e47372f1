"""A real redis-server for one test: on a free port, in a directory of its own, forgetting everything when it stops."""

import contextlib
import shutil
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from tests.process import Process, free_ports


class RedisServer:
    """``stop`` and ``start`` make an outage: the port stays the same, the data is gone, as after a lost Redis.

    options: further words for its command line. tls: its port speaks TLS, and this is how to check it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        options: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
        name: str = "redis-server",
    ) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            raise FileNotFoundError(
                "redis-server is not on PATH; `make test` installs it, or: apt-get install redis-server"
            )
        (self.port,) = free_ports(1)
        ports = ["--port", str(self.port)] if tls is None else ["--port", "0", "--tls-port", str(self.port)]
        argv = [binary, "--bind", "127.0.0.1", *ports, "--dir", str(directory)]
        argv += ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", *options]
        self._tls = tls
        self._process = Process(name, argv, directory / f"{name}.log")

    @property
    def url(self) -> str:
        return f"{'redis' if self._tls is None else 'rediss'}://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process.start()
        self._process.wait_ready(self._answers, timeout_s=15)

    def stop(self) -> None:
        self._process.kill()

    def _answers(self) -> bool:
        try:
            with contextlib.ExitStack() as stack:
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=1))
                if self._tls is not None:
                    sock = stack.enter_context(self._tls.wrap_socket(sock, server_hostname="127.0.0.1"))
                sock.sendall(b"PING\r\n")
                return sock.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
