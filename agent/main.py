"""Starts the agent, waits for SIGTERM, ends it with everything saved."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import msgspec

from agent import probes
from agent.api import routes
from agent.command_stream import CommandStream
from agent.config import AgentConfig, node_name, redis_settings
from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.disk import Disk
from agent.host import open_host
from agent.late_driver import end_when_installed
from agent.local_door import local_door
from agent.metrics import Metrics
from agent.publisher import Publisher
from agent.remembering import recall
from agent.reporting import Reporter
from agent.service import Agent, Kept
from agent.store import Store
from shared import catalog, logs
from shared.aio import now, running
from shared.config import ConfigError
from shared.http_server import parse_listen, serving
from shared.model import Instant
from shared.redis_client import connect
from shared.web import application

log = logging.getLogger(__name__)

EXIT_OK, EXIT_BUG, EXIT_CONFIG = 0, 1, 2


def run(config: AgentConfig) -> int:
    """The agent until SIGTERM or SIGINT. Returns the exit code: 0 ended, 1 a bug or a port in use, 2 configuration."""
    logs.setup()
    try:
        asyncio.run(serve(config))
    except ConfigError as exc:
        print(f"npu-warden agent: {exc}", file=sys.stderr)
        return EXIT_CONFIG
    except OSError as exc:
        print(f"npu-warden agent: http.listen {config.http.listen}: {exc.strerror or exc}", file=sys.stderr)
        return EXIT_BUG
    except Exception:
        log.exception("the agent ends because of a bug")
        return EXIT_BUG
    return EXIT_OK


async def serve(config: AgentConfig) -> None:
    """Everything the daemon is, wired. Raises ConfigError, OSError (the HTTP port)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = node_name(config)
    client = connect(redis_settings(config, node), timeout_s=config.redis.timeout_s)
    metrics = Metrics()
    store = Store(Path(config.paths.state_dir))
    disk = Disk(store, metrics)
    host = open_host(config, metrics)
    reporter = Reporter(node=node, boot_id=host.boot_id, url=own_url(config))
    before = last_run(store.memory())
    watching = probes.load(config, host.sensors)
    if before is not None:
        recall(watching, before.probes, now(), same_boot=before.boot_id == host.boot_id != "")
    publisher = Publisher(client, node=node, outbox=disk, metrics=metrics, timeout_s=config.redis.timeout_s)
    agent = Agent(
        config,
        host=host,
        detector=Detector(catalog.load(), config.debounce, remembered(before, host.boot_id, now())),
        reporter=reporter,
        disk=disk,
        publisher=publisher,
        commands=CommandStream(client, node=node, timeout_s=config.redis.timeout_s),
        probes=watching,
        metrics=metrics,
        drill=None if before is None else before.drill,
        remembered=None if before is None else before.probes,
    )
    try:
        async with (
            serving(application(routes(agent)), config.http.listen) as port,
            local_door(Path(config.paths.state_dir), agent.drills, agent.detector.view, lambda: agent.latest),
            running(end_when_installed(config.paths, host.sensors.chips.name, stop, period_s=config.poll.host_s)),
        ):
            log.info("node %s: agent %s, HTTP on port %d", node, reporter.session, port)
            await agent.run(stop)
    finally:
        await publisher.close()
        await disk.close()


def last_run(raw: bytes | None) -> Kept | None:
    """What an earlier process has kept; unusable memory costs the history, never the start."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=Kept)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        log.error("the saved fault history cannot be read (%s); starting without it", exc)
        return None


def remembered(before: Kept | None, boot_id: str, at: Instant) -> DetectorMemory | None:
    """What detection knew before the restart, on the clock of this boot."""
    return None if before is None else before.memory.rebased(at, same_boot=before.boot_id == boot_id != "")


def own_url(config: AgentConfig) -> str | None:
    """Where this API can be reached, when the DaemonSet says so (HOST_IP from status.hostIP)."""
    address = os.environ.get("HOST_IP")
    _, port = parse_listen(config.http.listen)
    return f"http://{f'[{address}]' if ':' in address else address}:{port}" if address else None
