"""The hands of people and the tongues of liars: wishes by kubectl, taints taken off or put on by others, an agent that
floods, a message that speaks for another node. Each ends by itself, as the toxics do."""

import random
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Literal

import redis.asyncio
from redis.exceptions import RedisError

from shared.names import (
    CONTROL_CONFIGMAP,
    EVENTS_STREAM,
    ISOLATE_ANNOTATION,
    NAMESPACE,
    OPT_OUT_LABEL,
    RELEASE_ANNOTATION,
    TAINT_KEY,
    report_key,
)
from tests.chaos.judge import isolated, taints
from tests.chaos.record import Object
from tests.chaos.toxics import Toxics
from tests.chaos.truth import Hand, Truth

FOREIGN = {"key": "example.com/maintenance", "effect": "PreferNoSchedule"}
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
HELD_S = (1.0, 6.0)
FLOOD = 500


class People:
    """Each method does one thing, says whether it has, and sees to its end."""

    def __init__(self, toxics: Toxics, truth: Truth, chance: random.Random) -> None:
        self._toxics, self._truth, self._random = toxics, truth, chance
        self._world = toxics.rigging.world
        self._theirs: set[str] = set()
        """Nodes that somebody holds or has opted out, for as long as it lasts."""

    def free(self, node: str) -> bool:
        return node not in self._theirs

    async def strip_taint(self) -> bool:
        """Off a node that is broken: it must come back."""
        node = await self._tainted()
        if node is None:
            return False
        name = node["metadata"]["name"]
        self._truth.hands.append(Hand("stripped", name, time.monotonic()))
        kept = [taint for taint in taints(node) if taint["key"] != TAINT_KEY]
        return await self._set_taints(node, kept)

    async def taint_otherwise(self) -> bool:
        """Somebody else's taint, which must be there until he takes it off."""
        node = await self._any()
        if node is None or any(taint["key"] == FOREIGN["key"] for taint in taints(node)):
            return False
        name = node["metadata"]["name"]
        if not await self._set_taints(node, [*taints(node), FOREIGN]):
            return False

        async def off() -> None:
            for _ in range(20):
                (now,) = [one for one in await self._world.node_objects() if one["metadata"]["name"] == name]
                assert any(taint["key"] == FOREIGN["key"] for taint in taints(now)), f"{name} has lost a foreign taint"
                if await self._set_taints(now, [one for one in taints(now) if one["key"] != FOREIGN["key"]]):
                    return
            raise AssertionError(f"{name}: the foreign taint could not be taken off")

        self._toxics.later(self._random.uniform(*HELD_S), off)
        return True

    async def isolate(self) -> bool:
        return await self._hold("isolated", {"annotations": {ISOLATE_ANNOTATION: "chaos"}}) is not None

    async def opt_out(self) -> str | None:
        """The node that the warden is to leave alone."""
        return await self._hold("opted out", {"labels": {OPT_OUT_LABEL: "true"}})

    async def release(self, unanswered: Collection[str]) -> bool:
        """A node that may still be broken, but whose pods have been restarted: others would be forgiven with it."""
        node = await self._tainted()
        if node is None or node["metadata"]["name"] in unanswered:
            return False
        name = node["metadata"]["name"]
        self._truth.hands.append(Hand("released", name, time.monotonic()))
        await self._world.patch(_path(name), {"metadata": {"annotations": {RELEASE_ANNOTATION: "chaos"}}})
        return True

    async def pause(self) -> bool:
        if "pause" in self._theirs:
            return False
        self._theirs.add("pause")
        await self._set_pause("chaos")

        async def resume() -> None:
            await self._set_pause(None)
            self._theirs.discard("pause")

        self._toxics.later(self._random.uniform(*HELD_S), resume)
        return True

    async def flood(self) -> bool:
        """An agent that never stops telling, of itself and in nonsense."""
        node = self._random.choice(list(self._world.nodes)).encode()
        notes = [b'{"node":"%s"}' % node, b"\xff\x00", b"{", b'{"node":"nobody"}']
        with suppress(RedisError, OSError):
            url = self._toxics.rigging.broker.url
            async with redis.asyncio.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
                for _ in range(FLOOD):
                    pipe.xadd(EVENTS_STREAM, {"note": self._random.choice(notes)})
                await pipe.execute()
            return True
        return False

    async def lie(self) -> bool:
        """One node's report under another's key: nobody is to be isolated or given back for it."""
        one, other = self._random.sample(list(self._world.nodes), 2)
        with suppress(RedisError, OSError):
            async with redis.asyncio.Redis.from_url(self._toxics.rigging.broker.url) as client:
                report = await client.get(report_key(one))
                if report is not None:
                    await client.set(report_key(other), report)
                    return True
        return False

    async def _set_taints(self, node: Object, wanted: list[Object]) -> bool:
        """False: the node has changed since it was read."""
        version = node["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
        return await self._world.patch(_path(node["metadata"]["name"]), body)

    async def _set_pause(self, why: str | None) -> None:
        body = {"data": {"paused": why}}
        if not await self._world.patch(f"{CONFIGMAPS}/{CONTROL_CONFIGMAP}", body):
            meta = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
            await self._world.create(CONFIGMAPS, {"metadata": meta, **body})

    async def _hold(self, what: Literal["isolated", "opted out"], marks: dict[str, dict[str, str]]) -> str | None:
        node = await self._any()
        if node is None:
            return None
        name = str(node["metadata"]["name"])
        self._theirs.add(name)
        hand = Hand(what, name, time.monotonic())
        self._truth.hands.append(hand)
        await self._world.patch(_path(name), {"metadata": marks})

        async def over() -> None:
            none = {part: dict.fromkeys(values) for part, values in marks.items()}
            await self._world.patch(_path(name), {"metadata": none})
            hand.ended = time.monotonic()
            self._theirs.discard(name)

        self._toxics.later(self._random.uniform(*HELD_S), over)
        return name

    async def _any(self) -> Object | None:
        """A node that nothing is the matter with."""
        taken = self._truth.ill_nodes() | self._theirs
        well = [node for node in await self._world.node_objects() if node["metadata"]["name"] not in taken]
        return self._random.choice(well) if well else None

    async def _tainted(self) -> Object | None:
        nodes = [node for node in await self._world.node_objects() if isolated(node)]
        return self._random.choice(nodes) if nodes else None


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"
