"""A real redis-server for one test: on a free port, in a directory of its own, forgetting everything when it stops."""

import shutil
import socket
from pathlib import Path

from tests.process import Process, free_ports


class RedisServer:
    """``stop`` and ``start`` make an outage: the port stays the same, the data is gone, as after a lost Redis."""

    def __init__(self, directory: Path) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            raise FileNotFoundError(
                "redis-server is not on PATH; `make test` installs it, or: apt-get install redis-server"
            )
        (self.port,) = free_ports(1)
        argv = [binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(directory)]
        argv += ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
        self._process = Process("redis-server", argv, directory / "redis.log")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process.start()
        self._process.wait_ready(self._answers, timeout_s=15)

    def stop(self) -> None:
        self._process.kill()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                sock.sendall(b"PING\r\n")
                return sock.recv(16).startswith(b"+PONG")
        except OSError:
            return False
