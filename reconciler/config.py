"""reconciler.toml and policy.toml: what the daemon connects to, and the policy that it reads again when it changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from reconciler.core.policy import Policy
from shared.config import ConfigError, load_toml
from shared.http_server import parse_listen
from shared.names import NAMESPACE
from shared.redis_url import FILE_KEYS, RedisSettings

log = logging.getLogger(__name__)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all tables: an unknown key is an error."""


class KubeConfig(_Table, frozen=True):
    """kubeconfig: None = the pod's service account, outside a pod $KUBECONFIG. namespace: where the Lease is kept."""

    kubeconfig: str | None = None
    namespace: str = NAMESPACE


class HttpConfig(_Table, frozen=True):
    listen: str = ":9466"

    def __post_init__(self) -> None:
        parse_listen(self.listen)


class RankTableServer(_Table, frozen=True):
    """listen: where MS Controllers subscribe, while this replica leads. cert_file, key_file: TLS, PEM, both or none.
    ca_file: then clients must show a certificate of this authority."""

    listen: str = ":8899"
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        parse_listen(self.listen)
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError("ranktable.cert_file: TLS needs both cert_file and key_file")
        if self.ca_file is not None and self.cert_file is None:
            raise ConfigError("ranktable.ca_file: clients show certificates over TLS only: set cert_file and key_file")


class ReconcilerConfig(_Table, frozen=True):
    """The whole of reconciler.toml. policy: path of policy.toml; None = the defaults. decisions: path of the decision
    log, JSON lines; None = it is not kept."""

    kube: KubeConfig = KubeConfig()
    redis: RedisSettings = RedisSettings()
    http: HttpConfig = HttpConfig()
    ranktable: RankTableServer = RankTableServer()
    policy: str | None = None
    decisions: str | None = None


def load_config(path: Path | None) -> ReconcilerConfig:
    """Read reconciler.toml; None = the defaults. Relative paths in it are relative to it. Raises ConfigError."""
    if path is None:
        return ReconcilerConfig()
    config = load_toml(path, ReconcilerConfig)

    def beside(name: str | None) -> str | None:
        return None if name is None else str(path.parent / name)

    replace = msgspec.structs.replace
    return replace(
        config,
        policy=beside(config.policy),
        decisions=beside(config.decisions),
        kube=replace(config.kube, kubeconfig=beside(config.kube.kubeconfig)),
        ranktable=replace(
            config.ranktable,
            cert_file=beside(config.ranktable.cert_file),
            key_file=beside(config.ranktable.key_file),
            ca_file=beside(config.ranktable.ca_file),
        ),
        redis=replace(config.redis, **{key: beside(getattr(config.redis, key)) for key in FILE_KEYS}),
    )


class PolicyFile:
    """policy.toml on disk. A bad one is refused with one line that names the key, and the old one stays in force.

    `error` is that line for as long as the newest file is refused. `known`: a file has been read once. Until then the
    defaults hold and are only observed: what the operators wanted may have been less.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int] | None = None
        self.error: str | None = None
        self.policy = Policy()
        self.known = self._path is None
        if self._path is not None:
            self.policy = Policy(observe_only=True)
            self._stamp = self._look()
            self._read(self._path)

    def reload(self) -> bool | None:
        """True: there is a new policy. False: a new file was refused. None: nothing has changed."""
        if self._path is None:
            return None
        stamp = self._look()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        if not self._read(self._path):
            return False
        log.info("policy %s: read again, in force from now on", self._path)
        return True

    def _read(self, path: Path) -> bool:
        try:
            self.policy = load_toml(path, Policy)
        except ConfigError as exc:
            none_yet = "none is known yet: nothing is done until it is mended"
            self.error = f"{exc} ({'the one before stays in force' if self.known else none_yet})"
            log.error("policy refused: %s. `npu-warden config check` checks a file before it is rolled out", self.error)
            return False
        self.error, self.known = None, True
        return True

    def _look(self) -> tuple[int, int] | None:
        """Time and inode of the file behind every link: a ConfigMap volume is swapped by a link."""
        assert self._path is not None
        try:
            seen = os.stat(self._path)
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_ino
