"""The agent's HTTP API: what it knows of its own node, and whether it is alive. It reads, it never decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from agent.answers import Alive, ChipDetails, EffectiveConfig, Verdict
from agent.detect.codes import is_code, is_switch_code
from agent.runner import ProbeDetails
from agent.service import Agent
from shared.model import Chip, Fault, NodeReport
from shared.openapi import TEXT, Route, serve
from shared.web import Handler, Page, json_response, list_response, metrics_handler, problem

STARTING = ("Not ready", "the first look at the chips has not ended yet; ask again in some seconds")


def routes(agent: Agent) -> list[web.RouteDef]:
    async def livez(_request: web.Request) -> web.StreamResponse:
        late = agent.ticks.late()
        agent.metrics.loops_late.set(len(late))
        return problem(503, "A loop hangs", "; ".join(late)) if late else json_response(Alive())

    async def readyz(_request: web.Request) -> web.StreamResponse:
        return json_response(Alive()) if agent.latest is not None and agent.looked else problem(503, *STARTING)

    async def health(request: web.Request, report: NodeReport) -> web.StreamResponse:
        verdict = Verdict.of(report)
        strict = request.query.get("strict") == "1"
        return json_response(verdict, status=503 if strict and verdict.healthy is False else 200)

    async def chips(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return list_response(report.chips)

    async def chip(request: web.Request, report: NodeReport) -> web.StreamResponse:
        wanted = request.match_info["phy"]
        found = next((one for one in report.chips if str(one.phy) == wanted), None)
        if found is None:
            known = ", ".join(str(one.phy) for one in report.chips) or "none"
            return problem(404, "No such chip", f"phy {wanted}: the physical ids of this node are {known}")
        faults = tuple(fault for fault in report.faults if fault.chip == found.phy)
        unknown = tuple(one for one in report.unknown if one.chip == found.phy)
        return json_response(ChipDetails(found, faults, unknown))

    async def faults(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return list_response(report.faults)

    async def whole(_request: web.Request, report: NodeReport) -> web.StreamResponse:
        return json_response(report)

    async def probes(_request: web.Request) -> web.StreamResponse:
        return list_response(agent.runner.details())

    async def config(request: web.Request) -> web.StreamResponse:
        code = request.query.get("code")
        if code is not None and not (is_code(code) or is_switch_code(code)):
            return problem(400, "No fault code", f"code={code}: must be as the driver prints it (80E01801), or NW-...")
        return json_response(EffectiveConfig.of(agent.config, agent.fault_config, code))

    def reported(handler: Callable[[web.Request, NodeReport], Awaitable[web.StreamResponse]]) -> Handler:
        """For handlers that need a report: 503 before there is one."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return problem(503, *STARTING) if agent.latest is None else await handler(request, agent.latest)

        return handle

    metrics = metrics_handler(agent.metrics.registry)
    strict = {"strict": ("0", "1")}
    phy = {"phy": "physical id of the chip"}
    return serve(
        "NPU Warden agent",
        [
            Route("/livez", livez, "200 while every loop comes round in time, 503 with the late ones.", Alive),
            Route("/readyz", readyz, "200 once the chips have been looked at.", Alive),
            Route("/metrics", metrics, "Prometheus metrics, npuwarden_agent_*.", TEXT),
            Route(
                "/v1/health",
                reported(health),
                "The node's verdict; with ?strict=1 the status is 503 when it must not take work.",
                Verdict,
                also=(503,),
                query=strict,
            ),
            Route("/v1/chips", reported(chips), "All chips.", Page[Chip]),
            Route(
                "/v1/chips/{phy}",
                reported(chip),
                "One chip by physical id, with its faults.",
                ChipDetails,
                parameters=phy,
            ),
            Route("/v1/faults", reported(faults), "The open faults.", Page[Fault]),
            Route("/v1/report", reported(whole), "The newest NodeReport, as in Redis.", NodeReport),
            Route("/v1/probes", probes, "Each probe: age and duration of its last look, errors.", Page[ProbeDetails]),
            Route(
                "/v1/config",
                config,
                "The configuration in force and where it comes from; with ?code= every rule in force for that code.",
                EffectiveConfig,
                query={"code": None},
            ),
        ],
    )
