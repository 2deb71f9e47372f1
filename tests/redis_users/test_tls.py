"""The small Redis of component redis-tls, certificates of deploy/redis-certificates.sh: a real server, real files."""

import asyncio
import base64
import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
import yaml
from redis.exceptions import RedisError

from agent.config import load as load_agent
from reconciler.config import load_config
from shared.names import report_key
from shared.redis_client import connect
from shared.redis_url import RedisSettings
from tests.deploy.manifests import DEPLOY, documents, find
from tests.redis_users.conftest import Secrets, Server

pytestmark = pytest.mark.redis

COMPONENT = DEPLOY / "components" / "redis-tls"
SCRIPT = DEPLOY / "redis-certificates.sh"
NAME = "npuwarden-redis.npuwarden-system.svc"
SERVER, CLIENT = "npuwarden-redis-server-tls", "npuwarden-redis-client-tls"


def configuration(file: str, key: str) -> str:
    """What the component puts into a ConfigMap."""
    objects = list(yaml.safe_load_all((COMPONENT / file).read_text()))
    text: str = next(obj for obj in objects if obj["kind"] == "ConfigMap")["data"][key]
    return text


def made(directory: Path, days: str = "30") -> dict[str, Path]:
    """Directories with the files of each Secret that the script prints, as pods mount them."""
    environment = {**os.environ, "DAYS": days}
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, timeout=40, check=True, env=environment)
    found: dict[str, Path] = {}
    for obj in yaml.safe_load_all(done.stdout):
        name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
        place = directory / ("tls" if name == SERVER else namespace)
        place.mkdir(parents=True)
        for key, value in obj["data"].items():
            (place / key).write_bytes(base64.b64decode(value))
        found[f"{namespace}/{name}"] = place
    return found


class TlsServer(Server):
    """It speaks to nobody without a certificate."""

    def __init__(self, directory: Path, secrets: Secrets) -> None:
        super().__init__(directory, secrets, **{"redis.conf": configuration("redis.yaml", "redis.conf")})

    @property
    def url(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0"

    def _answers(self) -> bool:
        client = redis.Redis(port=self.port, ssl=True, ssl_cert_reqs="none")
        try:
            client.ping()
        except (redis.ConnectionError, ssl.SSLError) as exc:
            return "refused" not in str(exc)
        finally:
            client.close()
        return False


@pytest.fixture
def pki(tmp_path: Path) -> dict[str, Path]:
    return made(tmp_path)


@pytest.fixture
def tls_server(tmp_path: Path, pki: dict[str, Path], secrets: Secrets) -> Iterator[TlsServer]:
    server = TlsServer(tmp_path, secrets)
    server.start()
    yield server
    server.stop()


def settings_of(part: str, server: TlsServer, pki: dict[str, Path], tmp_path: Path) -> RedisSettings:
    """[redis] of the component's own agent.toml or reconciler.toml, its files and the server's address found here."""
    path = tmp_path / f"{part}.toml"
    path.write_text(configuration(f"{part}.yaml", f"{part}.toml"))
    found = load_agent(path).redis if part == "agent" else load_config(path).redis
    assert NAME in found.url
    files = pki[f"npuwarden-{'agent' if part == 'agent' else 'system'}/{CLIENT}"]
    here = {key: str(files / Path(str(getattr(found, key))).name) for key in ("ca_file", "cert_file", "key_file")}
    return msgspec.structs.replace(
        found,
        url=found.url.replace(f"{NAME}:6379", f"127.0.0.1:{server.port}"),
        **here,
        password_file=str(server.directory / part),
    )


async def said(settings: RedisSettings, *words: Any) -> object:
    """What a command answers, or what it raises."""
    client = connect(settings, timeout_s=5)
    try:
        async with asyncio.timeout(20):
            return await client.execute_command(*words)  # type: ignore[no-untyped-call]
    except (RedisError, OSError) as exc:
        return exc
    finally:
        await client.aclose()


async def test_agents_and_reconciler_speak_through_it_as_the_component_configures_them(
    tls_server: TlsServer, pki: dict[str, Path], tmp_path: Path
) -> None:
    agent = settings_of("agent", tls_server, pki, tmp_path)
    reconciler = settings_of("reconciler", tls_server, pki, tmp_path)
    assert await said(agent, "SET", report_key("node-a"), "{}") is True
    assert await said(reconciler, "MGET", report_key("node-a")) == [b"{}"]
    assert "permissions" in str(await said(reconciler, "SET", report_key("node-a"), "{}")), "a user has no more rights"


async def test_who_has_no_certificate_of_this_authority_is_not_heard(
    tls_server: TlsServer, pki: dict[str, Path], tmp_path: Path
) -> None:
    mine = settings_of("agent", tls_server, pki, tmp_path)
    others = made(tmp_path / "others")[f"npuwarden-agent/{CLIENT}"]
    foreign = {"cert_file": str(others / "tls.crt"), "key_file": str(others / "tls.key")}
    for wrong in (
        msgspec.structs.replace(mine, cert_file=None, key_file=None),
        msgspec.structs.replace(mine, **foreign),
        msgspec.structs.replace(
            mine, url=mine.url.replace("rediss:", "redis:"), ca_file=None, cert_file=None, key_file=None
        ),
    ):
        assert isinstance(await said(wrong, "PING"), (RedisError, OSError)), wrong
    not_trusted = msgspec.structs.replace(mine, ca_file=str(others / "ca.crt"))
    assert "certificate verify failed" in str(await said(not_trusted, "PING"))
    assert await said(mine, "PING") is True


def test_a_certificate_is_for_one_side_and_the_authority_signs_no_more(pki: dict[str, Path]) -> None:
    def openssl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=20, check=False)

    server, client = pki[f"npuwarden-system/{SERVER}"], pki[f"npuwarden-agent/{CLIENT}"]
    for place, fits, other in ((server, "sslserver", "sslclient"), (client, "sslclient", "sslserver")):
        verify = ("verify", "-x509_strict", "-CAfile", str(place / "ca.crt"))
        assert openssl(*verify, "-purpose", fits, str(place / "tls.crt")).returncode == 0
        assert openssl(*verify, "-purpose", other, str(place / "tls.crt")).returncode != 0
    assert (
        openssl(
            "verify", "-CAfile", str(server / "ca.crt"), "-verify_hostname", NAME, str(server / "tls.crt")
        ).returncode
        == 0
    )
    assert {path.name for place in pki.values() for path in place.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    assert openssl("x509", "-checkend", str(31 * 86400), "-in", str(server / "tls.crt")).returncode != 0, "30 days"


def test_the_scripts_files_are_gone_and_bad_days_are_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DAYS": "5"}
    subprocess.run([str(SCRIPT)], capture_output=True, timeout=40, check=True, env=environment)
    assert list(tmp_path.iterdir()) == [], "the authority's key is kept nowhere"
    for days in ("0", "-1", "a year"):
        done = subprocess.run(
            [str(SCRIPT)], capture_output=True, text=True, timeout=20, check=False, env={**environment, "DAYS": days}
        )
        assert done.returncode == 2
        assert "DAYS is a number" in done.stderr


def test_but_for_tls_it_is_the_same_redis() -> None:
    plain = find(documents(), "ConfigMap", "npuwarden-redis")["data"]["redis.conf"].splitlines()
    tls = configuration("redis.yaml", "redis.conf").splitlines()
    assert [line for line in tls if not re.match(r"tls-|port 0$", line)] == [
        line for line in plain if line != "port 6379"
    ]
