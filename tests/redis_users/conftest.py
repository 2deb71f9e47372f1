"""A Redis as deploy/redis.yaml starts it, with the users of `npu-warden redis-acl secrets`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from console.lab.children import NPU_WARDEN
from shared.redis_url import RedisSettings
from tests.deploy.manifests import documents, find
from tests.process import Process, free_ports

Secrets = dict[str, dict[str, str]]


def printed(*options: str) -> Secrets:
    """Data of the Secrets by name."""
    argv = [*NPU_WARDEN, "redis-acl", "secrets", *options]
    text = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=True).stdout
    return {obj["metadata"]["name"]: obj["stringData"] for obj in yaml.safe_load_all(text)}


class Server:
    """Started by the manifest's own script and configuration, below `directory` instead of /, on a free port.

    other_files: of its ConfigMap, in place of the manifest's.
    """

    def __init__(self, directory: Path, secrets: Secrets, **other_files: str) -> None:
        self.directory, self.secrets = directory, secrets
        for name in ("data", "etc", "users"):
            (directory / name).mkdir()
        (self.port,) = free_ports(1)
        files = find(documents(), "ConfigMap", "npuwarden-redis")["data"] | other_files
        for name, text in files.items():
            (directory / "etc" / name).write_text(self._here(text))
        (directory / "users" / "users.acl").write_text(secrets["npuwarden-redis-users"]["users.acl"])
        for user in ("admin", "agent", "reconciler"):
            if found := secrets.get(f"npuwarden-redis-{user}"):
                (directory / user).write_text(found["password"])
        self._process = Process("redis", ["sh", str(directory / "etc" / "start.sh")], directory / "redis.log")

    def _here(self, text: str) -> str:
        for place, name in (
            ("/data", "data"),
            ("/etc/redis-users", "users"),
            ("/etc/redis-tls", "tls"),
            ("/etc/redis/", "etc/"),
        ):
            text = text.replace(place, str(self.directory / name) + ("/" if place.endswith("/") else ""))
        return text.replace("port 6379", f"port {self.port}\nbind 127.0.0.1")

    def start(self) -> None:
        self._process.start()
        self._process.wait_ready(self._answers, timeout_s=15)

    def stop(self) -> None:
        self._process.kill()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def settings(self, user: str) -> RedisSettings:
        """As a daemon has them; its password is the file `user` of the directory."""
        return RedisSettings(url=self.url, username=user, password_file=str(self.directory / user))

    def client(self, user: str, password_file: Path | None = None) -> redis.Redis:
        password = (password_file or self.directory / user).read_text()
        return redis.Redis(port=self.port, username=user, password=password)

    def _answers(self) -> bool:
        client: Any = redis.Redis(port=self.port)
        try:
            client.ping()
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        finally:
            client.close()
        return False  # whoever comes without a password is to be refused


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return printed()


@pytest.fixture
def server(tmp_path: Path, secrets: Secrets) -> Iterator[Server]:
    server = Server(tmp_path, secrets)
    server.start()
    yield server
    server.stop()
