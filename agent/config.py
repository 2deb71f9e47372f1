"""agent.toml: every setting of the agent, with its default. Unknown keys are errors."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from agent.detect.settings import DetectSettings
from agent.limits import ProbeLimits
from agent.sensors.pci import GENERATIONS
from shared.config import ConfigError, load_toml
from shared.http_server import parse_listen
from shared.redis_url import RedisSettings

_NODE = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_NODE_VARIABLES = ("NPUWARDEN_NODE", "NODE_NAME")
MAX_PERIOD_S = 86400
MAX_HEARTBEAT_S = 1200
"""A report stays in Redis for an hour: two in a row may be late."""
MAX_REDIS_TIMEOUT_S = 30
"""A loop that waits for a Redis that does not answer must still come round in time for /livez."""


class Poll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds between two looks at chips, host, ports and optical modules."""

    chips_s: float = 5.0
    host_s: float = 10.0
    links_s: float = 30.0
    optics_s: float = 120.0


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report is sent at every change, and this often without one."""

    heartbeat_s: float = 15.0


class Redis(RedisSettings, frozen=True, forbid_unknown_fields=True):
    """timeout_s: how long Redis may take for a connection, one report or one batch of notes. `{node}` in `username`
    stands for the node's name."""

    timeout_s: float = 2.0


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """chips: how many NPUs (dies on an A3) a host of each generation has, such as {"910B" = 8}: one file serves a fleet
    of several kinds. Without it a card is missed only once it has been seen."""

    chips: dict[str, Annotated[int, msgspec.Meta(ge=1, le=1024)]] = {}

    def expected(self, generation: str | None) -> int | None:
        """For a host of this generation. None on the bus at all: as many as the smallest host has, at least."""
        return min(self.chips.values(), default=None) if generation is None else self.chips.get(generation)


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = ":9465"


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of the host. None = the usual places are searched; a file that is not there = this host has none."""

    dcmi: str | None = None
    npu_smi: str | None = None
    hccn_tool: str | None = None
    state_dir: str = "/var/lib/npu-warden"
    config_dir: str = "/etc/npu-warden/faults"
    kubelet_dir: str = "/var/lib/kubelet"
    sysfs: str = "/sys"
    procfs: str = "/proc"
    kmsg: str = "/dev/kmsg"


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`node` is the Kubernetes name of this node; see `node_name`."""

    node: str | None = None
    poll: Poll = Poll()
    report: Report = Report()
    debounce: DetectSettings = DetectSettings()
    probes: ProbeLimits = ProbeLimits()
    redis: Redis = Redis()
    http: Http = Http()
    inventory: Inventory = Inventory()
    paths: Paths = Paths()


def load(path: Path | None) -> AgentConfig:
    """Read and check agent.toml; without a file everything has its default. Raises ConfigError."""
    config = AgentConfig() if path is None else load_toml(path, AgentConfig)
    check(config, source=str(path or "defaults"))
    return config


def check(config: AgentConfig, *, source: str) -> None:
    """Values no type can refuse. Raises ConfigError that names the key."""
    periods = {
        "poll.chips_s": (config.poll.chips_s, MAX_PERIOD_S),
        "poll.host_s": (config.poll.host_s, MAX_PERIOD_S),
        "poll.links_s": (config.poll.links_s, MAX_PERIOD_S),
        "poll.optics_s": (config.poll.optics_s, MAX_PERIOD_S),
        "report.heartbeat_s": (config.report.heartbeat_s, MAX_HEARTBEAT_S),
        "redis.timeout_s": (config.redis.timeout_s, MAX_REDIS_TIMEOUT_S),
    }
    for key, (value, most) in periods.items():
        if not 0.05 <= value <= most:
            raise ConfigError(f"{source}: {key}: {value:g} is not between 0.05 and {most} seconds")
    if config.node is not None and not _NODE.fullmatch(config.node):
        raise ConfigError(f"{source}: node: {config.node!r} is not the name of a Kubernetes node")
    known = sorted(set(GENERATIONS.values()))
    for generation in config.inventory.chips:
        if generation not in known:
            raise ConfigError(f"{source}: inventory.chips.{generation}: no generation; known are {', '.join(known)}")
    url = config.probes.kubelet.url
    if not _is_http(url):
        raise ConfigError(f"{source}: probes.kubelet.url: {url!r} is not http[s]://HOST[:PORT]/PATH")
    for name, path in msgspec.structs.asdict(config.paths).items():
        if path is not None and (not path or "\0" in path):
            raise ConfigError(f"{source}: paths.{name}: {path!r} is no path")
    try:
        parse_listen(config.http.listen)
    except ValueError as exc:
        raise ConfigError(f"{source}: http.{exc}") from exc


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port, or half an IPv6 address
        return False


def node_name(config: AgentConfig, environ: Mapping[str, str] = os.environ) -> str:
    """NPUWARDEN_NODE, NODE_NAME (set by the DaemonSet from spec.nodeName), `node` of the file, or the host's name.
    Raises ConfigError that names the variable."""
    for variable in _NODE_VARIABLES:
        if name := environ.get(variable):
            if not _NODE.fullmatch(name):
                raise ConfigError(f"environment: {variable}: {name!r} is not the name of a Kubernetes node")
            return name
    return config.node or socket.gethostname().lower()


def redis_settings(config: AgentConfig, node: str) -> Redis:
    """`[redis]` with `{node}` in the user's name replaced: one file for all nodes, a user for each."""
    username = config.redis.username
    if username is None:
        return config.redis
    return msgspec.structs.replace(config.redis, username=username.replace("{node}", node))
