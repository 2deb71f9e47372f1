"""`config.Config` over gRPC, as ClusterD offers it to the MS Controller: Register and SubscribeRankTable.

Source: config.proto. The only module that imports grpc; it comes with the extra `ranktable`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from reconciler.config import RankTableServer
from reconciler.metrics import Metrics
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.wire import SERVICE, ClientInfo, RankTableStream, Status
from shared.config import ConfigError
from shared.http_server import parse_listen

log = logging.getLogger(__name__)

REFUSED = 1
AT_ONCE = 4096
"""Calls that may be open; one for each service is needed."""
_OPTIONS = [
    # Two servers on one port would share the subscribers between them without a word.
    ("grpc.so_reuseport", 0),
    # A subscriber whose node has died is let go, and not fed for ever.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
]


class Config:
    """The two calls. One instance for as long as this replica leads."""

    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self._hub, self._metrics = hub, metrics

    async def register(self, request: ClientInfo, _context: Any) -> Status:
        """A new registration ends the stream of the one before it, as with ClusterD."""
        if not request.job_id:
            return Status(REFUSED, "jobId is empty: the environment variable MINDX_TASK_ID names it")
        self._hub.preempt(request.job_id)
        log.info("%s of service %s registers for its rank table", request.role or "a client", request.job_id)
        return Status(0, "registered")

    async def subscribe(self, request: ClientInfo, context: Any) -> AsyncIterator[RankTableStream]:
        """The table that is right now, then every other one, until the client goes or a newer one comes."""
        if not request.job_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "jobId is empty")
        subscription = self._hub.subscribe(request.job_id)
        self._metrics.rank_table_subscribers.set(len(self._hub))
        log.info("%s subscribes to the rank table of %s", context.peer(), request.job_id)
        try:
            await context.send_initial_metadata(())  # the client sees that it is heard, also before the first table
            while (text := await subscription.next()) is not None:
                yield RankTableStream(request.job_id, text)
                self._metrics.rank_table_pushes.inc()
                log.info("rank table of %s: %d bytes pushed to %s", request.job_id, len(text), context.peer())
            log.info("%s: a newer subscriber of %s takes its place", context.peer(), request.job_id)
        finally:
            self._hub.leave(subscription)
            self._metrics.rank_table_subscribers.set(len(self._hub))


@contextlib.asynccontextmanager
async def listening(settings: RankTableServer, hub: Hub, metrics: Metrics) -> AsyncIterator[int]:
    """The server on its port, which is given; at the end every stream is cut off. Raises ConfigError."""
    config = Config(hub, metrics)
    handlers = {
        "Register": grpc.unary_unary_rpc_method_handler(config.register, ClientInfo.decode, Status.encode),
        "SubscribeRankTable": grpc.unary_stream_rpc_method_handler(
            config.subscribe, ClientInfo.decode, RankTableStream.encode
        ),
    }
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=AT_ONCE)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    host, port = parse_listen(settings.listen)
    address = f"{host or '[::]'}:{port}"
    try:
        credentials = _credentials(settings)
    except OSError as exc:
        raise ConfigError(f"ranktable: a file of TLS cannot be read: {exc.filename}: {exc.strerror}") from exc
    try:
        bound = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except (RuntimeError, OSError) as exc:
        # gRPC says the same of a port that is taken and of a certificate that is none.
        or_tls = "" if credentials is None else f", or {settings.cert_file} and {settings.key_file} are no PEM pair"
        raise ConfigError(f"ranktable.listen: cannot listen on {settings.listen}{or_tls}: {exc}") from exc
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)


def _credentials(settings: RankTableServer) -> Any:
    """None without TLS. The files are read again at each handshake: a renewed certificate needs no restart."""
    if settings.cert_file is None or settings.key_file is None:
        return None
    cert, key = Path(settings.cert_file), Path(settings.key_file)
    ca = Path(settings.ca_file) if settings.ca_file else None

    def fetch() -> Any:
        roots = ca.read_bytes() if ca is not None else None
        return grpc.ssl_server_certificate_configuration([(key.read_bytes(), cert.read_bytes())], roots)

    def renewed() -> Any:
        try:
            return fetch()
        except OSError as exc:
            log.error("ranktable: the certificate cannot be read again, the one in use stays: %s", exc)
            return None

    return grpc.dynamic_ssl_server_credentials(fetch(), renewed, require_client_authentication=ca is not None)
