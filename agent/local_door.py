"""`npu-warden drill local`: a drill of this node without the cluster, through a socket that root alone can open."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from aiohttp import web

from agent.commands import Refused
from agent.detect.view import DetectView
from agent.drill import DrillBench
from shared.aio import now
from shared.commands import DrillStart
from shared.model import Drill, Instant, NodeReport
from shared.names import AGENT_SOCKET, LOCAL_DRILL
from shared.web import application, json_response, problem

log = logging.getLogger(__name__)

SHUTDOWN_S = 0.5


class State(msgspec.Struct, frozen=True):
    """GET /v1/drill. shown: whether the newest report has the drill's fault, or reports are kept back for one."""

    drill: Drill | None
    shown: bool


@contextlib.asynccontextmanager
async def local_door(
    directory: Path,
    drills: DrillBench,
    view: Callable[[Instant], DetectView],
    latest: Callable[[], NodeReport | None],
) -> AsyncIterator[None]:
    """Serve the socket while the block runs. Where it cannot be made the agent goes on without, and says so."""
    path = directory / AGENT_SOCKET
    try:
        listener = _bound(path)
    except OSError as exc:
        log.warning("%s: no local drills: %s", path, exc.strerror or exc)
        yield
        return
    app = application(_routes(drills, view, latest))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
        listener.close()
        path.unlink(missing_ok=True)


def _bound(path: Path) -> socket.socket:
    """For its owner alone from the first moment on. What a killed agent has left behind makes room. Raises OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _routes(
    drills: DrillBench, view: Callable[[Instant], DetectView], latest: Callable[[], NodeReport | None]
) -> list[web.RouteDef]:
    async def begin(request: web.Request) -> web.Response:
        try:
            order = msgspec.json.decode(await request.read(), type=DrillStart)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            return problem(400, "No drill", str(exc))
        if not order.drill.startswith(LOCAL_DRILL):
            return problem(400, "No drill", f"drill: the name of a local drill begins with {LOCAL_DRILL}")
        if latest() is None:
            return problem(503, "Not ready", "the first look at the chips has not ended yet; ask again in some seconds")
        at = now()
        try:
            text = drills.start(order, order.ttl_s, view(at), at)
        except Refused as exc:
            return problem(409, "Refused", str(exc))
        log.warning("local: %s", text)
        return await show(request)

    async def show(_request: web.Request) -> web.Response:
        report = latest()
        shown = report is not None and any(fault.origin == "drill" for fault in report.faults)
        shown = shown or drills.withholding
        return json_response(State(drills.drill, shown))

    async def end(request: web.Request) -> web.Response:
        log.warning("local: %s", drills.stop(request.match_info["name"]))
        return await show(request)

    return [web.post("/v1/drill", begin), web.get("/v1/drill", show), web.delete("/v1/drill/{name}", end)]
