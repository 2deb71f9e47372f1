"""The lab's Redis: a real redis-server where one is installed, else an embedded stand-in (fakeredis)."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from console.lab.children import Child, free_ports

_STAND_IN = """
import sys
from fakeredis import TcpFakeServer
TcpFakeServer(("127.0.0.1", int(sys.argv[1])), server_type="redis").serve_forever()
"""


class Broker:
    """Empty at the start, keeps nothing. `real` = redis-server, not the stand-in."""

    def __init__(self, directory: Path, log: Path) -> None:
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        server = shutil.which("redis-server")
        self.real = server is not None
        if server is not None:
            argv = [server, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(directory)]
            argv += ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
        else:
            argv = [sys.executable, "-P", "-c", _STAND_IN, str(self.port)]
        self.child = Child("Redis", argv, log, orphaned=signal.SIGKILL)

    @property
    def shown(self) -> str:
        """For people: which of the two, and where."""
        what = "redis-server" if self.real else "no redis-server here, an embedded stand-in"
        return f"{what} on 127.0.0.1:{self.port}"
