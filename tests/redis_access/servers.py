"""Redis as clusters have it: with TLS and client certificates, and as master and replica behind a Sentinel."""

import shutil
import ssl
from pathlib import Path
from typing import Any

import redis

from tests.cluster.pki import Authority
from tests.process import Process, free_ports
from tests.redis_server import RedisServer
from tests.waiting import wait_until

SERVICE = "npuwarden"
ADDRESS = "subjectAltName=IP:127.0.0.1"


class Certificates:
    """One authority, a certificate of the server for 127.0.0.1, and one of a client."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.authority = Authority(directory)
        self.ca = str(self.authority.ca_file)
        self.server = self.authority.sign("server", "/CN=redis", extensions=[ADDRESS])
        self.client = self.authority.sign("client", "/CN=warden")

    def server_options(self) -> list[str]:
        crt, key = map(str, self.server)
        return ["--tls-cert-file", crt, "--tls-key-file", key, "--tls-ca-cert-file", self.ca]

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(*map(str, self.client))
        return context

    def settings(self) -> dict[str, str]:
        """The keys of `[redis]` for a client that trusts the authority and shows its own certificate."""
        return {"ca_file": self.ca, "cert_file": str(self.client[0]), "key_file": str(self.client[1])}


class Watched:
    """Master and replica, and the Sentinel that watches them. With certificates all of them speak TLS alone."""

    def __init__(self, directory: Path, certificates: Certificates | None = None) -> None:
        self._tls, options = None, []
        if certificates is not None:
            self._tls = certificates.context()
            options = [*certificates.server_options(), "--tls-replication", "yes"]
        self._certificates = certificates
        self.first = RedisServer(directory, options=options, tls=self._tls, name="first")
        follow = [*options, "--replicaof", "127.0.0.1", str(self.first.port), "--repl-diskless-sync-delay", "0"]
        self.second = RedisServer(directory, options=follow, tls=self._tls, name="second")
        (self.port,) = free_ports(1)
        binary = shutil.which("redis-server")
        assert binary is not None
        self._file = directory / "sentinel.conf"
        monitor = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.first.port} 1",
            f"sentinel down-after-milliseconds {SERVICE} 400",
            f"sentinel failover-timeout {SERVICE} 2000",
        ]
        self._file.write_text("\n".join(monitor) + "\n")
        ports = ["--port", str(self.port)] if self._tls is None else ["--port", "0", "--tls-port", str(self.port)]
        argv = [binary, str(self._file), "--sentinel", "--bind", "127.0.0.1", *ports, "--dir", str(directory), *options]
        self._sentinel = Process("sentinel", argv, directory / "sentinel.log")

    def start(self) -> None:
        """Until the Sentinel knows the replica: without one there is nothing to fail over to."""
        self.first.start()
        self.second.start()
        self._sentinel.start()
        self._sentinel.wait_ready(self._knows_the_replica, timeout_s=20)

    def stop(self) -> None:
        for process in (self._sentinel, self.first, self.second):
            process.kill() if isinstance(process, Process) else process.stop()

    def fail_over(self) -> None:
        """Make the replica the master while the old one lives on, as an operator does before maintenance."""
        with self.client(self.port) as sentinel:
            wait_until("the Sentinel agrees to fail over", lambda: self._asked(sentinel))

    def client(self, port: int) -> redis.Redis:
        """To look, and to command, without the code under test."""
        keys = self._certificates.settings() if self._certificates else {}
        names = {"ca_file": "ssl_ca_certs", "cert_file": "ssl_certfile", "key_file": "ssl_keyfile"}
        options: dict[str, Any] = {names[key]: value for key, value in keys.items()}
        return redis.Redis(host="127.0.0.1", port=port, ssl=self._tls is not None, **options)

    def role(self, server: RedisServer) -> str:
        with self.client(server.port) as client:
            try:
                return str(client.info("replication")["role"])
            except redis.ConnectionError:
                return "away"

    def _asked(self, sentinel: redis.Redis) -> bool:
        try:
            return bool(sentinel.sentinel_failover(SERVICE))
        except redis.ResponseError:
            return False

    def _knows_the_replica(self) -> bool:
        with self.client(self.port) as sentinel:
            try:
                master = sentinel.sentinel_master(SERVICE)
            except redis.RedisError:
                return False
            return int(master["num-slaves"]) == 1 and not master["is_odown"]
