"""Where Redis is and how to get in: the `[redis]` table of both daemons, checked before anything connects.

redis://[USER:PASSWORD@]HOST[:PORT][/DB]                       one server
rediss://...                                                    the same over TLS
redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DB]  the master that these Sentinels name (port 26379)
rediss+sentinel://...                                           TLS to the Sentinels and to the master
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from shared.config import ConfigError

REDIS_PORT, SENTINEL_PORT = 6379, 26379
FILE_KEYS = ("password_file", "ca_file", "cert_file", "key_file", "sentinel_password_file")
"""Keys of the table whose values are paths."""
_FORMS = "redis[s]://HOST:PORT/DB or redis[s]+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB"
_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")


class Target(msgspec.Struct, frozen=True):
    """What a URL says. addresses: host and port of the server, or of each Sentinel; service: the master's name there,
    None for a server."""

    addresses: tuple[tuple[str, int], ...]
    service: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = None


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys both daemons have. Passwords and certificates are files, read at every connection.

    ca_file: whom to trust, None = the system's authorities. cert_file and key_file: the client's own certificate, PEM.
    sentinel_password_file: for Sentinels that ask for one; the other credentials are for the server alone.
    Raises ConfigError that names the key; a password in `url` is never shown.
    """

    url: str = "redis://127.0.0.1:6379/0"
    username: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    sentinel_password_file: str | None = None

    def __post_init__(self) -> None:
        try:
            target = self.target
        except ValueError as exc:
            raise ConfigError(f"redis.url: {self.shown!r} is not {_FORMS}: {exc}") from None
        for key in ("ca_file", "cert_file", "key_file"):
            if getattr(self, key) and not self.tls:
                raise ConfigError(f"redis.{key}: only a rediss:// or rediss+sentinel:// url uses it")
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError("redis.cert_file: a client certificate needs both cert_file and key_file")
        if self.sentinel_password_file and target.service is None:
            raise ConfigError("redis.sentinel_password_file: only a +sentinel:// url uses it")
        if (self.username or self.password_file) and (target.username or target.password):
            raise ConfigError("redis.username, redis.password_file: the url names a user too; say it in one place")

    @property
    def tls(self) -> bool:
        return self.url.startswith("rediss")

    @property
    def shown(self) -> str:
        """The URL for logs and for /v1/config: without user and password."""
        return without_password(self.url)

    @property
    def target(self) -> Target:
        scheme, _, rest = self.url.partition("://")
        credentials, _, place = rest.rpartition("@")
        if scheme not in _SCHEMES:
            raise ValueError("the scheme is none of these")
        if "?" in place or "#" in place:
            raise ValueError("options behind a ? or # are not read")
        hosts, *path = place.split("/")
        service: str | None = None
        if scheme.endswith("+sentinel"):
            service = unquote(path.pop(0)) if path else ""
            if not service:
                raise ValueError("the name of the service, by which the Sentinels know the master, is missing")
        db = "/".join(path) or "0"
        if not (db.isascii() and db.isdigit()):
            raise ValueError(f"the database {db!r} is not a number")
        username, _, password = credentials.partition(":")
        return Target(
            addresses=tuple(
                _address(host, SENTINEL_PORT if service else REDIS_PORT)
                for host in (hosts.split(",") if service else [hosts])
            ),
            service=service,
            db=int(db),
            username=unquote(username) or None,
            password=unquote(password) or None,
        )


def without_password(url: str) -> str:
    """For error texts.

    >>> without_password("redis://u:secret@host:1/0?password=secret")
    'redis://host:1/0'
    """
    scheme, sep, rest = url.rpartition("://")
    return f"{scheme}{sep}{rest.rpartition('@')[2].partition('?')[0]}"


def _address(text: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port`, `[v6]:port`. Raises ValueError."""
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of {text!r} is not a number up to 65535") from None
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, default_port if port is None else port
