"""The toxics: what spoils the ways between the parts, and what kills and freezes the parts; each ends by itself."""

import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import redis.asyncio

from console.lab.host import SimHost
from tests.chaos.http_proxy import HttpProxy, Weather
from tests.chaos.tcp_proxy import TcpProxy
from tests.chaos.world import World
from tests.integration.daemons import Agent, Daemon, Reconciler
from tests.redis_server import RedisServer

TOXIC_S = (0.5, 4.0)
FROZEN_S = (1.0, 3.0, 20.0)
"""The last is beyond a lease of 15 s."""
SLOW_API_S = (0.05, 0.5, 2.5)


@dataclass
class Rigging:
    """What the storm shakes. proxies: of the replicas, in their order; the agents and the replicas have a way each to
    Redis. pods: how many serve when all is well."""

    world: World
    hosts: dict[str, SimHost]
    agents: dict[str, Agent]
    replicas: Sequence[Reconciler]
    proxies: Sequence[HttpProxy]
    broker: RedisServer
    ways: Sequence[TcpProxy]
    pods: int


class Toxics:
    """Each method begins one, says whether it has, and sees to its end.

    busy: what a toxic holds until then; nothing is killed that is frozen. without_power: nodes that are off, whose
    agents nobody starts.
    """

    def __init__(self, rigging: Rigging, chance: random.Random) -> None:
        self.rigging, self._random = rigging, chance
        self.busy: set[str] = set()
        self.without_power: set[str] = set()
        self._due: list[tuple[float, Callable[[], Awaitable[None]]]] = []

    def later(self, after_s: float, end: Callable[[], Awaitable[None]]) -> None:
        self._due.append((time.monotonic() + after_s, end))

    async def end_what_is_due(self) -> None:
        now = time.monotonic()
        due, self._due = [d for d in self._due if d[0] <= now], [d for d in self._due if d[0] > now]
        for _, end in due:
            await end()

    async def end_all(self) -> None:
        """The calm begins."""
        for _, end in self._due:
            await end()
        self._due.clear()

    async def spoil_api(self) -> bool:
        proxy = self._random.choice(self.rigging.proxies)
        share = self._random.uniform(0.2, 1.0)
        proxy.weather = self._random.choice(
            [
                Weather(latency_s=self._random.choice(SLOW_API_S)),
                Weather(cut=True),
                Weather(hang=True),
                *(Weather(refuse=status, refuse_share=share) for status in (429, 500, 409, 410)),
                Weather(lose_share=share),
                Weather(halve_share=share),
            ]
        )
        if proxy.weather.cut:
            proxy.cut_connections()
        weather = proxy.weather

        async def fair() -> None:
            if proxy.weather is weather:
                proxy.weather = Weather()

        self.later(self._random.uniform(*TOXIC_S), fair)
        return True

    async def cut_watches(self) -> bool:
        self.rigging.world.cut_watches()
        self._random.choice(self.rigging.proxies).cut_connections()
        return True

    async def spoil_redis(self) -> bool:
        way = self._random.choice(self.rigging.ways)
        toxic = self._random.randrange(5)
        if toxic == 0:
            way.latency_s = self._random.uniform(0.01, 0.5)
        elif toxic == 1:
            way.cut()
        elif toxic == 2:
            way.hang()
        elif toxic == 3:
            way.break_answers(self._random.randrange(1, 5000))
        else:
            way.reset()

        async def fair() -> None:
            way.fair()

        self.later(self._random.uniform(*TOXIC_S), fair)
        return True

    async def lose_redis(self) -> bool:
        """Down, and empty when it comes back."""
        if "redis" in self.busy:
            return False
        self.busy.add("redis")
        self.rigging.broker.stop()

        async def again() -> None:
            self.rigging.broker.start()
            self.busy.discard("redis")

        self.later(self._random.uniform(*TOXIC_S), again)
        return True

    async def fill_redis(self) -> bool:
        """Out of memory: reads go on, writes are refused."""
        if "redis" in self.busy:
            return False

        async def limit(amount: str) -> None:
            async with redis.asyncio.Redis.from_url(self.rigging.broker.url) as client:
                await client.config_set("maxmemory", amount)

        await limit("1")
        self.busy.add("redis")

        async def room() -> None:
            await limit("0")
            self.busy.discard("redis")

        self.later(self._random.uniform(*TOXIC_S), room)
        return True

    async def kill_agent(self) -> bool:
        return self._kill(self._random.choice(list(self.rigging.agents.items())))

    async def freeze_agent(self) -> bool:
        return self._freeze(self._random.choice(list(self.rigging.agents.items())), FROZEN_S[:2])

    async def kill_replica(self) -> bool:
        return self._kill(self._random.choice([(r.name, r) for r in self.rigging.replicas]))

    async def freeze_replica(self) -> bool:
        return self._freeze(self._random.choice([(r.name, r) for r in self.rigging.replicas]), FROZEN_S)

    def _kill(self, named: tuple[str, Daemon]) -> bool:
        """SIGKILL; it is started again a little later, as its kubelet does."""
        key, daemon = named
        if key in self.busy:
            return False
        self.busy.add(key)
        daemon.kill()

        async def again() -> None:
            if key not in self.without_power:
                self.busy.discard(key)
                start(daemon)

        self.later(self._random.uniform(0.0, 3.0), again)
        return True

    def _freeze(self, named: tuple[str, Daemon], times_s: Sequence[float]) -> bool:
        key, daemon = named
        if key in self.busy:
            return False
        self.busy.add(key)
        os.killpg(daemon.pid, signal.SIGSTOP)

        async def wake() -> None:
            self.busy.discard(key)
            os.killpg(daemon.pid, signal.SIGCONT)

        self.later(self._random.choice(times_s), wake)
        return True

    async def cordon(self) -> bool:
        """Somebody else's hand on a node, which is none of the warden's business."""
        path = f"/api/v1/nodes/{self._random.choice(list(self.rigging.world.nodes))}"
        await self.rigging.world.patch(path, {"spec": {"unschedulable": True}})

        async def uncordon() -> None:
            await self.rigging.world.patch(path, {"spec": {"unschedulable": None}})

        self.later(self._random.uniform(*TOXIC_S), uncordon)
        return True


def start(daemon: Daemon) -> None:
    if not daemon.running:
        daemon.start()
