"""Wires the reconciler: one TaskGroup of loops, the leading scope inside the lease, an orderly end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from reconciler.announcer import Announcer
from reconciler.api import application
from reconciler.commander import Commander
from reconciler.config import PolicyFile, ReconcilerConfig
from reconciler.core import fold
from reconciler.core.actions import Action, Hold, Plan
from reconciler.core.calls import Outcome, Step
from reconciler.core.kept_logs import KeptLogs
from reconciler.core.recovery import Recovery
from reconciler.core.resources import WATCHED
from reconciler.core.state import State, World
from reconciler.core.steps import steps_for
from reconciler.counting import Counting
from reconciler.decisions import Decisions
from reconciler.evidence import Evidence, kept_of
from reconciler.executor import REQUEST_TIMEOUT_S, Executor
from reconciler.identity import identity
from reconciler.inbox import BadMessage, Inbox
from reconciler.kube.client import KubeClient, connected
from reconciler.kube.lease import GIVE_WAY_S, Lease
from reconciler.kube.watch import ResourceWatch
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from reconciler.planner import Planner
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.services import serves
from reconciler.ranktable.serving import Serving
from reconciler.webhook import Webhook
from reconciler.wishes import Wishes
from shared import aio, catalog
from shared.aio import Ticks, periodic
from shared.config import ConfigError
from shared.http_server import serving
from shared.model import Instant

log = logging.getLogger(__name__)

POLICY_EVERY_S = 2.0
STALE_S = 60.0
"""Nothing is deleted on the word of a watch that has been quiet for longer."""


class Service:
    """One replica. `run` until `stop` is set; leads whenever the lease is its own."""

    def __init__(self, config: ReconcilerConfig, client: KubeClient, policy: PolicyFile) -> None:
        me = identity()
        self.holder = me.holder
        self.metrics, self.ticks = Metrics(), Ticks()
        self.counting = Counting(self.metrics)
        self.decisions = Decisions(Path(config.decisions) if config.decisions else None, self.holder, self.metrics)
        self._config, self._client, self._policy = config, client, policy
        known = catalog.load().rows().values()
        network_codes = frozenset(row.code for row in known if row.kind == "chip-network")
        self.mirror = Mirror(World(policy=policy.policy, network_codes=network_codes), self.metrics)
        self.watches = [ResourceWatch(client, r, self.mirror, self.metrics, self.ticks) for r in WATCHED]
        self.lease = Lease(
            client,
            self.holder,
            self.metrics,
            self.ticks,
            namespace=config.kube.namespace,
            succeeds=me.succeeds,
            reluctant=lambda: not policy.known,
            give_way_s=GIVE_WAY_S,
            request_timeout_s=REQUEST_TIMEOUT_S,
        )
        self.inbox: Inbox | None = None
        self.planner: Planner | None = None
        """Both stand while this replica leads."""
        self.port = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Every loop until `stop`; a loop that dies ends all of them and raises here."""
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self.decisions.writing())
            listen = self._config.http.listen
            try:
                self.port = await stack.enter_async_context(serving(application(self), listen))
            except OSError as exc:
                raise ConfigError(f"http.listen: cannot listen on {listen}: {exc.strerror or exc}") from exc
            log.info("%s: HTTP on port %d, API server %s", self.holder, self.port, self._client.url)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(watch.run(), name=watch.name) for watch in self.watches]
                tasks.append(group.create_task(self._elect(), name="election"))
                tasks.append(group.create_task(self._watch_policy(), name="policy"))
                await stop.wait()
                log.info("%s: told to stop", self.holder)
                for task in tasks:
                    task.cancel()

    def not_synced(self) -> list[str]:
        """Kinds that a decision needs and that are not known yet."""
        return [watch.resource.plural for watch in self.watches if not watch.synced]

    def watch_ok(self) -> bool:
        """Whether the mirror of the cluster is complete and fresh."""
        for watch in self.watches:
            self.metrics.watch_age_seconds.labels(watch.resource.kind).set(watch.age_s())
        return all(watch.synced and (watch.absent or watch.age_s() <= STALE_S) for watch in self.watches)

    def newest(self) -> tuple[State, Plan] | None:
        """State and plan of this leader, None while it does not lead."""
        planner = self.planner
        return None if planner is None or planner.state is None else (planner.state, planner.plan)

    def watched(self) -> State:
        """What the watches have shown, leader or not; reports are the leader's alone."""
        return self.mirror.world.snapshot()

    def leader(self) -> str:
        return self.lease.current

    def policy_error(self) -> str | None:
        return self._policy.error

    def policy_known(self) -> bool:
        return self._policy.known

    def bad_messages(self) -> list[BadMessage]:
        return list(self.inbox.bad.values()) if self.inbox else []

    async def kept(self, recovery: Recovery) -> KeptLogs:
        """The logs that were kept of a recovery, read now."""
        return await kept_of(self._client, recovery, asked_for=self.mirror.world.policy.evidence.logs)

    async def _elect(self) -> None:
        """A replica that cannot see the cluster does not ask to lead it."""
        while self.not_synced():
            await self.mirror.changed.wait()
            self.mirror.changed.clear()
        await self.lease.run(self._lead)

    async def _lead(self) -> None:
        self.mirror.begin(self.holder, aio.now())
        inbox = Inbox(self._config.redis, self._known_nodes, self.mirror.accept, self.metrics, self.ticks)
        announcer = Announcer(self._client, self.metrics, self.ticks)

        wishes = Wishes(self._client, announcer.say, lambda told: self.decisions.asked(told, aio.now()), self.ticks)
        hub = Hub()
        webhook = Webhook(lambda: self.mirror.world.policy.webhook, self.holder, self.metrics, self.ticks)

        def held_back(holds: Sequence[Hold], now: Instant) -> None:
            self.decisions.held(holds, now)
            if (newest := self.newest()) is not None:
                announcer.refused(newest[0], holds, now)
                announcer.incidents(newest[0], newest[1].incidents, now)
                wishes.planned(newest[0])
                webhook.planned(newest[0], holds, newest[1].incidents, now)
                self.counting.planned(*newest)
                hub.take(newest[1].tables, wanted=serves(newest[0]) and bool(newest[0].services))

        evidence = Evidence(self._client, self.mirror.world, lambda: self.lease.valid_until, self.metrics)
        executor = Executor(
            self._client,
            self._begin,
            self._came_of,
            lambda: self.lease.valid_until,
            announcer.say,
            self.metrics,
            evidence.before,
        )
        planner = Planner(
            self.mirror,
            executor,
            lambda: inbox.ok,
            self.watch_ok,
            held_back,
            self.metrics,
            self.ticks,
            self._client.clock.now,
        )
        serving = Serving(
            self._config.ranktable, hub, self._client, lambda: self.lease.valid_until, self.metrics, self.ticks
        )
        commander = Commander(self._config.redis, lambda: planner.state, self.metrics, self.ticks)
        self.inbox = inbox
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(announcer.run(), name="announcer")
                group.create_task(wishes.run(), name="wishes")
                group.create_task(webhook.run(), name="webhooks")
                group.create_task(inbox.run(), name="inbox")
                group.create_task(commander.run(), name="commander")
                group.create_task(serving.run(), name="ranktable")
                await inbox.tried.wait()
                self.planner = planner
                group.create_task(planner.run(), name="planner")
        finally:
            self.inbox = self.planner = None
            await executor.close()
            await evidence.close()
            self.counting.ended()

    def _begin(self, action: Action) -> Step:
        fold.begun(self.mirror.world, action)
        return steps_for(action, self.holder, self._client.clock.now())

    def _came_of(self, action: Action, outcome: Outcome) -> None:
        self.decisions.done(action, outcome, aio.now())
        self.counting.came_of(action, outcome, self._client.clock.now())
        self.mirror.outcome(action, outcome)

    def _known_nodes(self) -> Collection[str]:
        """Those of this moment: it is asked at every read of the stream, so nothing is copied."""
        return self.mirror.world.nodes.keys()

    async def _watch_policy(self) -> None:
        self.ticks.expect("policy", within_s=60.0)
        await periodic(self._reload_policy, period_s=POLICY_EVERY_S, ticks=self.ticks, name="policy")

    async def _reload_policy(self) -> None:
        accepted = self._policy.reload()
        self.metrics.policy_refused.set(self._policy.error is not None)
        self.metrics.clock_ahead_seconds.set(self._client.clock.ahead_s)
        if accepted is not None:
            self.metrics.policy_reloads.labels("accepted" if accepted else "refused").inc()
        if accepted:
            self.mirror.world.policy = self._policy.policy
            self.mirror.changed.set()


async def serve(config: ReconcilerConfig) -> None:
    """Run one replica until SIGTERM or SIGINT. Raises ConfigError before anything has begun."""
    policy = PolicyFile(config.policy)
    stop = asyncio.Event()
    with _signals(stop):
        async with connected(config.kube.kubeconfig) as client:
            await Service(config, client, policy).run(stop)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
