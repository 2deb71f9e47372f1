"""A Redis that asks for certificates, and one that fails over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_access.servers import Certificates, Watched
from tests.redis_server import RedisServer


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "pki")


@pytest.fixture
def tls_server(certificates: Certificates, tmp_path: Path) -> Iterator[RedisServer]:
    """It lets in only who shows a certificate of its authority."""
    server = RedisServer(tmp_path, options=certificates.server_options(), tls=certificates.context())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    servers = Watched(tmp_path)
    servers.start()
    yield servers
    servers.stop()
