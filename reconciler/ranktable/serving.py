"""The leader's loop: the server runs and the Service leads to it while there is a service whose table is made here."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import time
from collections.abc import Callable
from typing import Protocol

from reconciler.config import RankTableServer
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.metrics import Metrics
from reconciler.ranktable.endpoint import lead_nowhere, point_here
from reconciler.ranktable.hub import Hub
from shared.aio import Ticks
from shared.config import ConfigError

log = logging.getLogger(__name__)

LOOP = "ranktable"
LATE_S = 90.0
AGAIN_S = 15.0
REQUEST_TIMEOUT_S = 5.0


class Sender(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...


class Serving:
    """One task runs `run` while this replica leads. valid_until: as in the executor, no write goes beyond it.

    address: of this pod, from POD_IP by the downward API; "" = nobody is led here by the Service.
    """

    def __init__(
        self,
        settings: RankTableServer,
        hub: Hub,
        client: Sender,
        valid_until: Callable[[], float],
        metrics: Metrics,
        ticks: Ticks,
        address: str | None = None,
    ) -> None:
        self._settings, self._hub, self._client = settings, hub, client
        self._valid_until, self._metrics, self._ticks = valid_until, metrics, ticks
        self._address = os.environ.get("POD_IP", "") if address is None else address
        self._complaint = ""
        self._led = bool(self._address)
        """Whether the Service may lead here, or to the leader before; taken back when there is nothing to serve."""
        self.port = 0
        """Where it listens, 0 = it does not."""

    async def run(self) -> None:
        """For ever; ends by cancellation only. What cannot be served is said once and tried again."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        try:
            while True:
                if self._hub.wanted and importlib.util.find_spec("grpc") is None:
                    self._complain(
                        "rank tables are published in ConfigMaps only: install the extra npu-warden[ranktable]"
                    )
                elif self._hub.wanted:
                    await self._serve()
                if self._hub.wanted is False and self._led:
                    self._led = not await self._drive(lead_nowhere())
                await self._pause()
        finally:
            self._ticks.forget(LOOP)
            self._metrics.rank_tables_unheard.set(0)

    async def _serve(self) -> None:
        from reconciler.ranktable.server import listening  # grpc is an extra, and 60 MB in memory

        try:
            async with listening(self._settings, self._hub, self._metrics) as port:
                self.port = port
                log.info("rank tables are served on port %d", port)
                while self._hub.wanted:
                    await self._lead_here(port)
                    await self._pause()
        except ConfigError as exc:
            self._complain(f"{exc}; tried again, tables are in ConfigMaps meanwhile")
        finally:
            self.port = 0

    async def _lead_here(self, port: int) -> None:
        """An address that is not known, or a Service that is not there, keeps nobody from connecting directly."""
        if not self._address:
            self._complain("POD_IP is not set: Service clusterd-grpc-svc does not lead here")
            return
        self._led = True
        await self._drive(point_here(self._address, port))

    async def _drive(self, step: Step) -> bool:
        """Whether its goal is reached; what keeps it from that is said."""
        try:
            call = next(step)
            while True:
                if call.method != "GET" and time.monotonic() > self._valid_until() - REQUEST_TIMEOUT_S:
                    return False
                call = step.send(await self._client.send(call, timeout_s=REQUEST_TIMEOUT_S))
        except StopIteration as end:
            outcome: Outcome = end.value
            self._complain("" if outcome.done else outcome.message)
            return outcome.done
        finally:
            step.close()

    async def _pause(self) -> None:
        """Until it is time to look again, or there is something to serve, or nothing any more."""
        self._ticks.tick(LOOP)
        self._metrics.rank_tables_unheard.set(self._hub.unheard if self.port else 0)
        try:
            async with asyncio.timeout(AGAIN_S):
                await self._hub.changed.wait()
        except TimeoutError:
            return
        finally:
            self._hub.changed.clear()

    def _complain(self, text: str) -> None:
        """A lasting trouble is said once."""
        if text and text != self._complaint:
            log.warning("ranktable: %s", text)
        self._complaint = text
