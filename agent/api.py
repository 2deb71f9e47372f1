"""The agent's HTTP API: what it knows of its own node, and whether it is alive. It reads, it never decides."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from agent.service import Agent
from shared.model import FaultLevel, NodeReport
from shared.version import VERSION
from shared.web import Handler, json_response, list_response, metrics_handler, problem

STARTING = ("Not ready", "the first look at the chips has not ended yet; ask again in some seconds")


def verdict(report: NodeReport) -> dict[str, Any]:
    """The node as a whole. `healthy`: false from RestartRequest up, null when something could not be looked at."""
    worst = max((fault.level for fault in report.faults), default=None)
    healthy: bool | None = not report.unknown or None
    if worst is not None and worst >= FaultLevel.RESTART_REQUEST:
        healthy = False
    return {
        "node": report.node,
        "healthy": healthy,
        "level": worst,
        "faults": report.faults,
        "unknown": report.unknown,
        "at": report.at,
    }


def routes(agent: Agent) -> list[web.RouteDef]:
    async def livez(_request: web.Request) -> web.StreamResponse:
        late = agent.ticks.late()
        agent.metrics.loops_late.set(len(late))
        return problem(503, "A loop hangs", "; ".join(late)) if late else json_response({"status": "ok"})

    async def readyz(_request: web.Request) -> web.StreamResponse:
        return json_response({"status": "ok"}) if agent.latest is not None and agent.looked else problem(503, *STARTING)

    async def health(request: web.Request, report: NodeReport) -> web.StreamResponse:
        body = verdict(report)
        strict = request.query.get("strict", "0")
        if strict not in {"0", "1"}:
            return problem(400, "Bad query", f"strict: {strict!r} is not 0 or 1")
        return json_response(body, status=503 if strict == "1" and body["healthy"] is False else 200)

    async def chips(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return list_response(report.chips)

    async def chip(request: web.Request, report: NodeReport) -> web.StreamResponse:
        wanted = request.match_info["phy"]
        found = next((one for one in report.chips if str(one.phy) == wanted), None)
        if found is None:
            known = ", ".join(str(one.phy) for one in report.chips) or "none"
            return problem(404, "No such chip", f"phy {wanted}: the physical ids of this node are {known}")
        faults = [fault for fault in report.faults if fault.chip == found.phy]
        unknown = [one for one in report.unknown if one.chip == found.phy]
        return json_response({"chip": found, "faults": faults, "unknown": unknown})

    async def faults(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return list_response(report.faults)

    async def whole(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return json_response(report)

    async def probes(_request: web.Request, _report: NodeReport) -> web.StreamResponse:
        return list_response(agent.runner.status())

    def reported(handler: Any) -> Handler:
        """For handlers that need a report: 503 before there is one."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if agent.latest is None:
                return problem(503, *STARTING)
            response: web.StreamResponse = await handler(request, agent.latest)
            return response

        return handle

    table = [
        ("/livez", livez, "200 while every loop comes round in time, 503 with the late ones."),
        ("/readyz", readyz, "200 once the chips have been looked at."),
        ("/metrics", metrics_handler(agent.metrics.registry), "Prometheus metrics, npuwarden_agent_*."),
        ("/v1/health", reported(health), "The node's verdict; ?strict=1 answers 503 when it must not take work."),
        ("/v1/chips", reported(chips), "All chips."),
        ("/v1/chips/{phy}", reported(chip), "One chip by physical id, with its faults."),
        ("/v1/faults", reported(faults), "The open faults."),
        ("/v1/report", reported(whole), "The newest NodeReport, as in Redis."),
        ("/v1/probes", reported(probes), "How each probe is doing."),
    ]
    document = openapi({path: text for path, _, text in table})

    async def describe(_request: web.Request) -> web.StreamResponse:
        return json_response(document)

    return [web.get("/openapi.json", describe), *(web.get(path, handler) for path, handler, _ in table)]


def openapi(paths: dict[str, str]) -> dict[str, Any]:
    """OpenAPI 3.1 of GET routes: path -> what it answers. Errors are RFC 9457 everywhere."""
    answers = {
        "200": {"description": "as described"},
        "default": {"description": "an error", "content": {"application/problem+json": {}}},
    }

    def get(path: str, text: str) -> dict[str, Any]:
        names = re.findall(r"{(\w+)}", path)
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        return {"get": {"summary": text, "parameters": parameters, "responses": answers}}

    return {
        "openapi": "3.1.0",
        "info": {"title": "NPU Warden agent", "version": VERSION},
        "paths": {path: get(path, text) for path, text in paths.items()},
    }
