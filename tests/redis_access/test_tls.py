"""TLS to a real server that wants a client certificate, with files that change under a running client."""

import asyncio
import shutil
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from shared.redis_client import connect
from shared.redis_url import RedisSettings
from tests.redis_access.servers import Certificates
from tests.redis_server import RedisServer

pytestmark = pytest.mark.redis


async def said(settings: RedisSettings) -> object:
    """What a SET answers, or what it raises."""
    client = connect(settings, timeout_s=5)
    try:
        async with asyncio.timeout(10):
            return await client.set("key", "value")
    except (RedisError, OSError) as exc:
        return exc
    finally:
        await client.aclose()


async def test_both_sides_show_their_certificates(tls_server: RedisServer, certificates: Certificates) -> None:
    assert await said(RedisSettings(url=tls_server.url, **certificates.settings())) is True


async def test_a_server_of_an_unknown_authority_is_not_spoken_to(tls_server: RedisServer) -> None:
    assert "certificate verify failed" in str(await said(RedisSettings(url=tls_server.url)))


async def test_a_client_without_certificate_is_refused(tls_server: RedisServer, certificates: Certificates) -> None:
    assert isinstance(await said(RedisSettings(url=tls_server.url, ca_file=certificates.ca)), (RedisError, OSError))


async def test_a_server_for_another_name_is_not_spoken_to(tls_server: RedisServer, certificates: Certificates) -> None:
    url = tls_server.url.replace("127.0.0.1", "localhost")
    assert "certificate is not valid for 'localhost'" in str(
        await said(RedisSettings(url=url, **certificates.settings()))
    )


async def test_a_file_that_is_missing_is_named(tls_server: RedisServer, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    text = str(await said(RedisSettings(url=tls_server.url, ca_file=missing)))
    assert missing in text
    assert "No such file" in text


async def test_a_renewed_certificate_is_read_at_the_next_connection(
    tls_server: RedisServer, certificates: Certificates, tmp_path: Path
) -> None:
    files = certificates.settings() | {"cert_file": str(tmp_path / "mine.crt")}
    crt, _ = certificates.server
    shutil.copy(crt, files["cert_file"])
    client = connect(RedisSettings(url=tls_server.url, **files), timeout_s=5)
    try:
        with pytest.raises(RedisError, match=r"mine\.crt"):  # the key belongs to another certificate
            await client.ping()
        shutil.copy(certificates.client[0], files["cert_file"])
        assert await client.set("key", "value")
        shutil.copy(crt, files["cert_file"])
        assert await client.ping(), "a connection that stands needs no files"
        await client.connection_pool.disconnect()
        with pytest.raises(RedisError, match=r"mine\.crt"):
            await client.ping()
    finally:
        await client.aclose()
