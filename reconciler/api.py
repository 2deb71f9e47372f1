"""The read-only HTTP API on :9466. What only the leader knows, only the leader answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from reconciler import views
from reconciler.core.actions import Plan
from reconciler.core.state import State
from reconciler.inbox import BadMessage
from reconciler.metrics import Metrics
from shared import aio
from shared.aio import Ticks
from shared.web import Handler, json_response, list_response, metrics_handler, problem
from shared.web import application as web_application


class Source(Protocol):
    """What the API asks of the replica that it stands in.

    newest: state and plan of the leader, None on a replica that does not lead (or has not planned yet).
    policy_error: why the newest policy.toml is refused.
    """

    metrics: Metrics
    ticks: Ticks

    def newest(self) -> tuple[State, Plan] | None: ...

    def leader(self) -> str: ...

    def policy_error(self) -> str | None: ...

    def not_synced(self) -> list[str]: ...

    def bad_messages(self) -> list[BadMessage]: ...

    def watched(self) -> State: ...


def application(source: Source) -> web.Application:
    """The routes of one replica."""
    api = _Api(source)
    return web_application(
        [
            web.get("/livez", api.livez),
            web.get("/readyz", api.readyz),
            web.get("/metrics", metrics_handler(source.metrics.registry)),
            web.get("/v1/warden", api.leads(api.warden)),
            web.get("/v1/nodes", api.leads(api.nodes)),
            web.get("/v1/nodes/{node}", api.leads(api.node)),
            web.get("/v1/faults", api.leads(api.faults)),
            web.get("/v1/recoveries", api.recoveries),
            web.get("/v1/plan", api.leads(api.plan)),
            web.get("/v1/why", api.leads(api.why)),
        ]
    )


class _Api:
    def __init__(self, source: Source) -> None:
        self._source = source

    def leads(self, answer: Callable[[web.Request, State, Plan], web.Response]) -> Handler:
        """Answer from the leader's newest state, or say who leads."""

        async def handler(request: web.Request) -> web.Response:
            newest = self._source.newest()
            if newest is None:
                leader = self._source.leader() or "nobody"
                return problem(503, "This replica does not lead", f"{leader} leads now; ask that replica, or try again")
            return answer(request, *newest)

        return handler

    async def livez(self, _request: web.Request) -> web.Response:
        late = self._source.ticks.late()
        return problem(503, "A loop is late", "; ".join(late)) if late else json_response({"ok": True})

    async def readyz(self, _request: web.Request) -> web.Response:
        missing = self._source.not_synced()
        if missing:
            return problem(503, "Not synced", f"not read from the API server yet: {', '.join(missing)}")
        return json_response({"ok": True, "leader": self._source.leader()})

    async def recoveries(self, _request: web.Request) -> web.Response:
        return list_response(views.recoveries(self._source.watched()))

    def warden(self, _request: web.Request, state: State, _plan: Plan) -> web.Response:
        return json_response(views.warden(state, self._source.leader(), self._source.policy_error()))

    def nodes(self, _request: web.Request, state: State, _plan: Plan) -> web.Response:
        return list_response(views.nodes(state, aio.now()))

    def node(self, request: web.Request, state: State, _plan: Plan) -> web.Response:
        name = request.match_info["node"]
        if name not in state.nodes and name not in state.heard:
            return problem(404, "No such node", f"neither the cluster nor any agent knows {name!r}")
        shown = views.node(state, name, aio.now())
        return json_response({**shown, "bad_messages": [b for b in self._source.bad_messages() if b.node == name]})

    def faults(self, _request: web.Request, state: State, _plan: Plan) -> web.Response:
        return list_response(views.faults(state))

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
                found = views.why_workload(state, plan, name)
        if found is None:
            meant = views.similar(state, name)
            hint = f"; known: {', '.join(meant)}" if meant else ""
            return problem(404, f"No such {kind}", f"nothing is known of {kind} {name!r}{hint}")
        return json_response(found)
