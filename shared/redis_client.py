"""The connection to Redis of both daemons: one server or the master behind Sentinels, with or without TLS.

Only builds clients; whoever asks for one owns and closes it. Time-outs are the caller's (asyncio.timeout around each
command): the client's own waits by wait_for, which can swallow a cancellation on Python 3.11.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import redis.asyncio as aioredis
from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import RedisError

from shared.redis_url import RedisSettings


def connect(settings: RedisSettings, *, timeout_s: float) -> aioredis.Redis:
    """A client that has not connected yet.

    timeout_s: for making a connection; all Sentinels together get no longer than it. What its commands raise is the
    caller's to retry: RedisError (an unreadable file too), OSError, TimeoutError.
    """
    target = settings.target
    tls = {"ssl_ca_certs": settings.ca_file, "ssl_certfile": settings.cert_file, "ssl_keyfile": settings.key_file}
    options = {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "protocol": 2,
        **{key: value for key, value in tls.items() if value},
    }
    account: dict[str, Any] = {"username": settings.username or target.username, "password": target.password}
    if settings.password_file:
        path = Path(settings.password_file)
        account = {"credential_provider": PasswordFile("password_file", settings.username, path)}
    wanted = {"db": target.db, "retry": _no_retry(), **options, **account}
    if target.service is None:
        ((host, port),) = target.addresses
        kind = _FreshTls if settings.tls else Connection
        pool = ConnectionPool(connection_class=kind, host=host, port=port, **wanted)
    else:
        kind = _FreshSentinelTls if settings.tls else SentinelManagedConnection
        sentinels = _Sentinels(settings, options, timeout_s)
        pool = SentinelConnectionPool(target.service, sentinels, connection_class=kind, **wanted)  # type: ignore[no-untyped-call]
    return aioredis.Redis.from_pool(pool)


class PasswordFile(CredentialProvider):
    """Read at every connection, so that a rotated password needs no restart. key: its name in the configuration."""

    def __init__(self, key: str, username: str | None, path: Path) -> None:
        self._key, self._username, self._path = key, username, path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = self._path.read_text(encoding="utf-8").strip()
        except OSError as exc:
            raise RedisError(f"redis.{self._key} {self._path}: {exc.strerror or exc}") from exc
        except UnicodeDecodeError as exc:
            raise RedisError(f"redis.{self._key} {self._path}: not UTF-8 text") from exc
        return (self._username, password) if self._username else (password,)


class _FreshTls(SSLConnection):
    """Certificates are read at every connection: a renewed one needs no restart."""

    def _connection_arguments(self) -> Any:
        self.ssl_context.context = None
        try:
            return super()._connection_arguments()
        except OSError as exc:
            files = self.ssl_context
            names = [str(name) for name in (files.ca_certs, files.certfile, files.keyfile) if name]
            raise RedisError(f"redis: certificates {', '.join(names)}: {exc.strerror or exc}") from exc


class _FreshSentinelTls(SentinelManagedSSLConnection, _FreshTls):
    """To the master that the Sentinels name."""


class _Sentinels(Sentinel):
    """Each discovery begins with another Sentinel, so that one that hangs, or has missed the failover, costs one try.

    No connection to a Sentinel is kept: they are asked when a connection to the master is made, and not again.
    """

    def __init__(self, settings: RedisSettings, options: dict[str, Any], timeout_s: float) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]
        if settings.sentinel_password_file:
            path = Path(settings.sentinel_password_file)
            options = {**options, "credential_provider": PasswordFile("sentinel_password_file", None, path)}
        kind = _FreshTls if settings.tls else Connection
        self.sentinels = [
            aioredis.Redis.from_pool(
                ConnectionPool(connection_class=kind, host=host, port=port, retry=_no_retry(), **options)
            )
            for host, port in settings.target.addresses
        ]
        self._each_s = timeout_s / (len(self.sentinels) + 1)

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        errors: list[str] = []
        for _ in range(len(self.sentinels)):
            sentinel = self.sentinels.pop(0)
            self.sentinels.append(sentinel)
            place = "{host}:{port}".format(**sentinel.connection_pool.connection_kwargs)
            try:
                async with asyncio.timeout(self._each_s):
                    address: Any = await sentinel.sentinel_get_master_addr_by_name(service_name)
            except (RedisError, OSError, TimeoutError) as exc:
                errors.append(f"{place}: {str(exc) or f'no answer within {self._each_s:.1f} s'}")
                continue
            except (TypeError, ValueError, LookupError) as exc:  # raised by the client over an answer it cannot read
                errors.append(f"{place}: its answer is no address ({type(exc).__name__}: {exc})")
                continue
            finally:
                await sentinel.connection_pool.disconnect()
            if address is not None:
                host, port = address
                return host, port
            errors.append(f"{place} does not know it")
        raise MasterNotFoundError(f"no master of {service_name!r}: {'; '.join(errors)}")


def _no_retry() -> Retry:
    """Retries are the loops' own: they must know of every failure."""
    return Retry(NoBackoff(), 0)
