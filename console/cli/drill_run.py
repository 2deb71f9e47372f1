"""One drill from its request to its report: asked for, followed, taken back whatever happens."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import click

from console import drill_access
from console.cli.errors import Unreachable, Unusable
from console.cli.reconciler_api import ask, items
from console.drill_watch import Watch
from reconciler.core import clock
from reconciler.core.calls import Reply
from shared.config import ConfigError

T = TypeVar("T")
EVERY_S = 0.25
BEGUN_S = 30.0
"""An agent looks for commands every 2 s; one that has not begun by then has refused, or is not there."""
REVERTED_S = 60.0
"""Of an agent that was not heard: its next heartbeat (15 s), and the pauses between tries to reach Redis again."""
PATIENCE_S = 45.0
"""A leader that is killed has a successor within this."""


class DrillRun:
    """One drill, as `request` (reconciler/core/drills.py) asks for it, with the objectives `wanted` in seconds."""

    def __init__(
        self, watch: Watch, request: Mapping[str, Any], *, url: str, kubeconfig: str | None, ttl_s: float
    ) -> None:
        self._watch, self._request, self._url, self._kubeconfig = watch, request, url, kubeconfig
        self._ttl_s = ttl_s
        self._began_s = time.monotonic()
        self._done = self._declined = False

    def run(self, wanted: Mapping[str, float]) -> str:
        """Returns what kept it from its end, or nothing. Ctrl-C ends it, and it is taken back in any case."""
        try:
            self._ask()
            why = self._follow(wanted)
        except KeyboardInterrupt:
            why = "interrupted"
        finally:
            if not self._declined:
                self._take_back()
        return why

    def _ask(self) -> None:
        """Write the request. One that is declined stands nowhere; without an answer it may stand all the same."""
        node = self._watch.node
        try:
            answer(drill_access.ask(self._kubeconfig, node, dict(self._request)), f"node {node}")
        except Unusable:
            self._declined = True
            raise
        if sys.stderr.isatty():
            until = clock.seconds(float(self._request["until"]))
            click.echo(f"drill {self._watch.name} has begun on {node} and ends by {until}; Ctrl-C ends it", err=True)

    def _follow(self, wanted: Mapping[str, float]) -> str:
        """Watch until nothing more is to come."""
        watch, begun, heard_s = self._watch, False, time.monotonic()
        while (now_s := time.monotonic()) < self._began_s + self._ttl_s:
            try:
                row = self._look(now_s)
            except Unreachable:
                if now_s > heard_s + PATIENCE_S:
                    raise
                time.sleep(1.0)  # another replica is about to lead
                continue
            heard_s = time.monotonic()
            state = row["state"] if row is not None else None
            if begun and row is None:
                return "it was ended by somebody else"
            if begun and state in ("asked", "refused") and watch.kind.by == "agent":
                return self._ended_by_agent()  # a real fault has come up: it would not be begun any more
            if row is not None and state == "refused" and not self._done:
                return f"refused: {row.get('why')}"
            if row is not None and not self._done and (why := self._carry_out(row)):
                return why
            begun = begun or state == "running"
            if not begun and now_s > self._began_s + BEGUN_S:
                return self._not_begun()
            if watch.complete(wanted, now_s):
                return watch.harm
            time.sleep(EVERY_S)
        return "" if "detect" in watch.at_s else "its time ran out before the fault was seen"

    def _look(self, now_s: float) -> dict[str, Any] | None:
        """One round of questions. Returns the drill's row."""
        watch = self._watch
        row = next((one for one in items(self._url, "/v1/drills") if one["name"] == watch.name), None)
        node = ask(self._url, f"/v1/nodes/{watch.node}")
        recoveries = items(self._url, "/v1/recoveries") if watch.effect == "real" else []
        watch.see(row, node, recoveries, now_s)
        return row

    def _carry_out(self, row: Mapping[str, Any]) -> str:
        """Do what no agent does, once nothing refuses it. Returns why it is left undone."""
        watch = self._watch
        if watch.kind.by == "lab":
            answer(drill_access.confirm(self._kubeconfig, watch.node, watch.name), f"node {watch.node}")
        elif watch.kind.by == "command" and watch.effect == "real":
            if row["state"] != "running" or not watch.would:
                return ""
            if not watch.restarts and not self._request.get("force"):
                return f"refused: nothing would restart it: {'; '.join(watch.would)}"
            pod, uid = str(self._request["pod"]), str(self._request["uid"])
            answer(drill_access.fail_pod(self._kubeconfig, pod, uid, watch.name), f"pod {pod}")
        self._done = watch.kind.by != "agent"
        return ""

    def _ended_by_agent(self) -> str:
        return f"the agent of {self._watch.node} has ended it: it has something real to report, or was started anew"

    def _not_begun(self) -> str:
        if self._watch.kind.by == "agent":
            node = self._watch.node
            return f"the agent of {node} has not begun it within {BEGUN_S:.0f} s: its log says whether it refused"
        return f"nothing of it was seen within {BEGUN_S:.0f} s"

    def _take_back(self) -> None:
        """End it, and wait until the fault is gone. A failure is said: it ends by itself at its time."""
        watch = self._watch
        try:
            answer(drill_access.end(self._kubeconfig, watch.node, name=watch.name), f"node {watch.node}")
        except click.ClickException as exc:
            left_s = max(0.0, self._began_s + self._ttl_s - time.monotonic())
            click.echo(f"the drill could not be ended ({exc.message}); it ends by itself in {left_s:.0f} s", err=True)
            return
        ended_s = time.monotonic()
        while watch.at_s and "reverted" in watch.kind.phases and time.monotonic() < ended_s + REVERTED_S:
            try:
                if self._reverted(ended_s):
                    watch.at_s["reverted"] = time.monotonic() - self._began_s
                    return
            except Unreachable as exc:
                click.echo(f"the drill is ended, its end was not seen: {exc.message}", err=True)
                return
            time.sleep(EVERY_S)

    def _reverted(self, ended_s: float) -> bool:
        watch = self._watch
        node = ask(self._url, f"/v1/nodes/{watch.node}")
        if watch.kind.held:  # somebody is heard again
            age_s = node.get("report_age_s")
            return age_s is not None and age_s < time.monotonic() - ended_s
        return not any(watch.is_ours(fault) for fault in node["faults"])


def answer(work: Coroutine[Any, Any, T], about: str) -> T:
    """The answer of the API server. Raises Unusable, Unreachable."""
    try:
        found = asyncio.run(work)
    except (ConfigError, drill_access.Taken) as exc:
        raise Unusable(str(exc)) from exc
    reply = found[0] if isinstance(found, tuple) else found
    if isinstance(reply, Reply) and not reply.ok:
        if reply.status == 0 or reply.status >= 500:
            raise Unreachable(f"{about}: no answer from the API server: {reply.text.removeprefix('0 ')}")
        if reply.status == 404:
            raise Unusable(f"there is no {about} ({reply.text})")
        raise Unusable(f"{about}: {reply.text}")
    return found
