"""Wishes are looked at and told while a replica leads, each once."""

from __future__ import annotations

import asyncio
from typing import Any

from reconciler.core import fold
from reconciler.core.calls import Call, Reply
from reconciler.core.policy import Policy
from reconciler.wishes import LOOP, Wishes
from shared.aio import Ticks, cancel
from shared.names import CONTROL_CONFIGMAP, NAMESPACE, OPT_OUT_LABEL
from tests.core.build import node
from tests.core.worlds import world_of
from tests.waiting import eventually


class ApiServer:
    """Answers each GET with what stands at its path, 404 for nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        found = self.objects.get(call.path)
        return Reply(404) if found is None else Reply(200, found)


async def test_a_change_is_told_once_and_what_stood_before_is_not() -> None:
    api, said, ticks = ApiServer(), asyncio.Queue[Call](), Ticks()
    world = world_of([node("a", labels={OPT_OUT_LABEL: "true"}), node("b")])
    world.paused = "works"
    noted: list[str] = []
    wishes = Wishes(api, said.put_nowait, lambda call: noted.append(call.body["reason"]), ticks)
    task = asyncio.create_task(wishes.run())

    async def told() -> tuple[str, str]:
        async with asyncio.timeout(20):
            body = (await said.get()).body
        return body["reason"], body["involvedObject"]["name"]

    wishes.planned(world.snapshot())
    assert await told() == ("Paused", CONTROL_CONFIGMAP), "a new leader is paused too, and says so"
    api.objects["/api/v1/nodes/b"] = {"metadata": {"uid": "uid-b"}}
    fold.observe(world, "Node", "set", node("b", labels={OPT_OUT_LABEL: "true"}))
    for _ in range(3):
        wishes.planned(world.snapshot())
    assert await told() == ("OptedOut", "b")
    fold.observe(world, "Node", "gone", node("a", labels={OPT_OUT_LABEL: "true"}))
    wishes.planned(world.snapshot())
    world.paused = None
    api.objects[f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONTROL_CONFIGMAP}"] = {"data": {}}
    wishes.planned(world.snapshot())
    assert await told() == ("Resumed", CONTROL_CONFIGMAP), "a node that is gone has withdrawn nothing"
    world.policy = Policy(observe_only=True)
    world.paused = "again"
    wishes.planned(world.snapshot())
    await eventually("it is noted", lambda: noted[-1] == "Paused")
    assert said.empty(), "nothing is written to the cluster, not even this"
    assert noted == ["Paused", "OptedOut", "Resumed", "Paused"]
    await cancel(task)
    assert LOOP not in " ".join(ticks.late())
