"""The read-only HTTP API on :9466. What only the leader knows, only the leader answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, get_args

import msgspec
from aiohttp import web

from reconciler import drill_view, views
from reconciler.answers import (
    Alive,
    NodeAnswer,
    NodeDetails,
    NodeVerdict,
    OpenFault,
    PlanAnswer,
    Ready,
    RecoveryAnswer,
    RecoveryDetails,
    Warden,
    Why,
)
from reconciler.core.actions import Incident, Plan
from reconciler.core.coverage import Covered
from reconciler.core.drill_orders import DrillRow
from reconciler.core.kept_logs import KeptLogs
from reconciler.core.recovery import FINISHED_PHASES, OPEN_PHASES, Recovery
from reconciler.core.repairs import Repair, repairs
from reconciler.core.state import State
from reconciler.inbox import BadMessage
from reconciler.metrics import Metrics
from reconciler.page import files
from reconciler.page.stream import Stream
from shared import aio, paging
from shared.aio import Ticks
from shared.model import FaultLevel
from shared.openapi import STREAM, TEXT, Route, serve
from shared.paging import BadToken, Cut
from shared.web import Handler, Page, json_response, metrics_handler, problem
from shared.web import application as web_application

TITLE = "NPU Warden reconciler"


class Source(Protocol):
    """What the API asks of the replica that it stands in.

    newest: state and plan of the leader, None on a replica that does not lead (or has not planned yet).
    policy_error: why the newest policy.toml is refused. policy_known: one has been read since this replica began.
    """

    metrics: Metrics
    ticks: Ticks
    holder: str

    def newest(self) -> tuple[State, Plan] | None: ...

    def leader(self) -> str: ...

    def policy_error(self) -> str | None: ...

    def policy_known(self) -> bool: ...

    def not_synced(self) -> list[str]: ...

    def bad_messages(self) -> list[BadMessage]: ...

    def watched(self) -> State: ...

    async def kept(self, recovery: Recovery) -> KeptLogs: ...


def application(source: Source) -> web.Application:
    """The routes of one replica, and the loop behind its stream."""
    stream = Stream(source)
    app = web_application([*serve(TITLE, routes(source, stream)), *files.routes(stream.expect)])
    app.cleanup_ctx.append(stream.running)
    return app


def routes(source: Source, stream: Stream) -> list[Route]:
    """Every question a replica answers."""
    api = _Api(source)
    phases = tuple(sorted(OPEN_PHASES | FINISHED_PHASES))
    levels = tuple(level.value for level in FaultLevel)
    return [
        Route("/livez", api.livez, "200 while every loop comes round in time, 503 with the late ones.", Alive),
        Route("/readyz", api.readyz, "200 once the cluster has been read; names the leader.", Ready),
        Route(
            "/metrics", metrics_handler(source.metrics.registry), "Prometheus metrics, npuwarden_reconciler_*.", TEXT
        ),
        Route("/v1/warden", api.leads(api.warden), "What keeps the warden itself from acting.", Warden),
        Route(
            "/v1/nodes",
            api.leads(api.nodes),
            "All nodes of the cluster, by name.",
            Page[NodeAnswer],
            query={"verdict": get_args(NodeVerdict), **paging.QUERY},
        ),
        Route(
            "/v1/nodes/{node}",
            api.leads(api.node),
            "One node, and what came from it and was not used.",
            NodeDetails,
            parameters={"node": "name of the node"},
        ),
        Route(
            "/v1/faults",
            api.leads(api.faults),
            "All open faults, by node and id.",
            Page[OpenFault],
            query={"node": None, "level": levels, "code": None, **paging.QUERY},
        ),
        Route(
            "/v1/recoveries",
            api.recoveries,
            "All recoveries, the newest first. Every replica answers.",
            Page[RecoveryAnswer],
            query={"namespace": None, "phase": phases, "state": ("open", "finished"), **paging.QUERY},
        ),
        Route(
            "/v1/recoveries/{namespace}/{name}",
            api.recovery,
            "One recovery with the evidence that was kept: the driver's codes, and logs where the policy keeps them. "
            "Every replica answers.",
            RecoveryDetails,
            parameters={"namespace": "of the Recovery, its workload's", "name": "name of the Recovery"},
        ),
        Route(
            "/v1/repairs",
            api.leads(api.repairs),
            "Chips that somebody has to repair, replace or look at, by node and chip.",
            Page[Repair],
            query={"node": None, **paging.QUERY},
        ),
        Route(
            "/v1/incidents",
            api.leads(api.incidents),
            "What many nodes have in common, one item each: members, since when, what is held for it. Oldest first.",
            Page[Incident],
            query=paging.QUERY,
        ),
        Route("/v1/plan", api.leads(api.plan), "What would be done now, and everything that is refused.", PlanAnswer),
        Route(
            "/v1/why",
            api.leads(api.why),
            "The chain of evidence about one node, pod (namespace/name) or workload (namespace/name[/instance]).",
            Why,
            query={"node": None, "pod": None, "workload": None},
        ),
        Route(
            "/v1/drills",
            api.drills,
            "Every drill that is asked for or runs; of a shadow drill, what it would have caused.",
            Page[DrillRow],
            query=paging.QUERY,
        ),
        Route(
            "/v1/coverage",
            api.coverage,
            "Every workload with NPUs, whether a fault of it would be handled, and what it lacks.",
            Page[Covered],
            query={"namespace": None, "only": ("gaps",), **paging.QUERY},
        ),
        Route(
            "/v1/stream",
            stream.handle,
            "What the page at / shows, as server-sent events: `whole`, then each `change`. Every replica answers.",
            STREAM,
        ),
    ]


class _Api:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._surveying = asyncio.Lock()

    def leads(self, answer: Callable[[web.Request, State, Plan], web.Response]) -> Handler:
        """Answer from the leader's newest state, or say who leads."""

        async def handler(request: web.Request) -> web.Response:
            newest = self._source.newest()
            return self._no_leader() if newest is None else answer(request, *newest)

        return handler

    def _no_leader(self) -> web.Response:
        leader = self._source.leader() or "nobody"
        answer = problem(503, "This replica does not lead", f"{leader} leads now; ask that replica, or try again")
        answer.force_close()  # behind a Service the next connection may reach the leader, this one never does
        return answer

    async def livez(self, _request: web.Request) -> web.Response:
        late = self._source.ticks.late()
        self._source.metrics.loops_late.set(len(late))
        return problem(503, "A loop is late", "; ".join(late)) if late else json_response(Alive())

    async def readyz(self, _request: web.Request) -> web.Response:
        missing = self._source.not_synced()
        if missing:
            return problem(503, "Not synced", f"not read from the API server yet: {', '.join(missing)}")
        if not self._source.policy_known():
            # Not ready holds up a rollout: the replica before this one goes on with the policy that it has.
            return problem(503, "No policy", f"only observed, by the defaults: {self._source.policy_error()}")
        return json_response(Ready(True, self._source.leader()))

    def warden(self, _request: web.Request, state: State, _plan: Plan) -> web.Response:
        return json_response(views.warden(state, self._source.leader(), self._source.policy_error()))

    def nodes(self, request: web.Request, state: State, _plan: Plan) -> web.Response:
        found = views.nodes(state, aio.now(), request.query.get("verdict"))
        return _paged(request, lambda cut: cut.page(found, lambda node: (node.name,)))

    def node(self, request: web.Request, state: State, _plan: Plan) -> web.Response:
        name = request.match_info["node"]
        if name not in state.nodes and name not in state.heard:
            return problem(404, "No such node", f"neither the cluster nor any agent knows {name!r}")
        shown = msgspec.structs.asdict(views.node(state, name, aio.now()))
        bad = [message for message in self._source.bad_messages() if message.node == name]
        return json_response(NodeDetails(**shown, bad_messages=bad))

    def faults(self, request: web.Request, state: State, _plan: Plan) -> web.Response:
        asked = request.query
        found = views.faults(state, asked.get("node"), asked.get("level"), asked.get("code"))
        return _paged(request, lambda cut: cut.page(found, lambda fault: (fault.node, fault.id)))

    async def recoveries(self, request: web.Request) -> web.Response:
        asked, which = request.query, request.query.get("state")
        is_open = None if which is None else which == "open"
        found = views.recoveries(self._source.watched(), asked.get("namespace"), asked.get("phase"), is_open=is_open)
        return _paged(request, lambda cut: cut.page(found, views.recovery_key, newest_first=True))

    async def recovery(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        found = self._source.watched().recoveries.get(key)
        if found is None:
            return problem(404, "No such recovery", f"there is no recovery {key}; old ones are removed")
        kept = await self._source.kept(found)
        shown = msgspec.structs.asdict(views.recovery(found))
        return json_response(RecoveryDetails(**shown, logs=kept.logs, logs_note=kept.note))

    def repairs(self, request: web.Request, state: State, _plan: Plan) -> web.Response:
        rows = repairs(state, aio.now(), request.query.get("node"))
        return _paged(request, lambda cut: cut.page(rows, lambda row: (row.node, row.id)))

    def incidents(self, request: web.Request, _state: State, plan: Plan) -> web.Response:
        return _paged(request, lambda cut: cut.page(plan.incidents, lambda one: (one.since, one.id)))

    def plan(self, _request: web.Request, _state: State, plan: Plan) -> web.Response:
        return json_response(views.plan(plan, aio.now()))

    def why(self, request: web.Request, state: State, plan: Plan) -> web.Response:
        asked = [(key, request.query[key]) for key in ("node", "pod", "workload") if key in request.query]
        if len(asked) != 1:
            return problem(400, "Which one?", "ask with one of ?node=, ?pod=NAMESPACE/NAME, ?workload=NAMESPACE/NAME")
        (kind, name), now = asked[0], aio.now()
        match kind:
            case "node":
                found = views.why_node(state, plan, name, now)
            case "pod":
                found = views.why_pod(state, plan, name, now)
            case _:
                found = views.why_workload(state, plan, name, now)
        if found is None:
            meant = views.similar(state, name)
            hint = f"; known: {', '.join(meant)}" if meant else ""
            return problem(404, f"No such {kind}", f"nothing is known of {kind} {name!r}{hint}")
        return json_response(found)

    async def drills(self, request: web.Request) -> web.Response:
        newest = self._source.newest()
        if newest is None:
            return self._no_leader()
        # A shadow drill takes a plan of its own: in a thread, and one at a time, as coverage.
        async with self._surveying:
            rows = await asyncio.to_thread(drill_view.drills, newest[0], aio.now())
        return _paged(request, lambda cut: cut.page(rows, lambda row: (row.name, row.node)))

    async def coverage(self, request: web.Request) -> web.Response:
        newest = self._source.newest()
        if newest is None:
            return self._no_leader()
        # Seconds of work in a large cluster: in a thread, so that the lease is renewed meanwhile, and one at a time.
        namespace, gaps_only, state = request.query.get("namespace"), "only" in request.query, newest[0]
        async with self._surveying:
            rows = await asyncio.to_thread(views.coverage, state, aio.now(), namespace, gaps_only=gaps_only)
        return _paged(request, lambda cut: cut.page(rows, lambda row: (row.namespace, row.workload, *row.units)))


def _paged(request: web.Request, answer: Callable[[Cut], Page[Any]]) -> web.Response:
    try:
        cut = Cut.of(request)
    except BadToken as exc:
        return problem(400, "Bad query", str(exc))
    return json_response(answer(cut))
