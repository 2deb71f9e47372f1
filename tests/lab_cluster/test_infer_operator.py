"""The stand-in for the infer-operator: what it makes, and what makes it rebuild an instance; lab and real cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from console.lab.cluster.client import Access
from console.lab.cluster.operators import infer_objects
from console.lab.cluster.operators.infer_operator import MARK
from console.lab.cluster.resources import INFERSERVICES, INSTANCESETS, PODGROUPS, PODS, STATEFULSETS
from console.lab.cluster.workloads import infer_service
from tests.cluster.plane import ControlPlane
from tests.lab_cluster.world import World, lab_world, real_world

pytestmark = pytest.mark.slow

Object = dict[str, Any]

PREFILL = ("svc-0-prefill-0-0", "svc-0-prefill-0-1")


class Behaviour:
    """The checks. Subclasses say which cluster."""

    async def start(self, world: World, **more: Any) -> dict[str, Object]:
        service = infer_service("svc", namespace=world.namespace, node_selector=world.node_selector, npus=0, **more)
        await world.apply(service)
        return await world.running(4)

    async def rebuilt(self, world: World, before: dict[str, str]) -> None:
        """Both prefill pods are others, under their old names; decode is as it was."""
        await world.until(
            "prefill is made anew", lambda: all(world.uids().get(n) not in (None, before[n]) for n in PREFILL)
        )
        await world.running(4)
        assert {n: u for n, u in world.uids().items() if n not in PREFILL} == {
            n: u for n, u in before.items() if n not in PREFILL
        }

    async def mark(self, world: World, value: str, pod: str = PREFILL[0]) -> None:
        patch = {"metadata": {"annotations": {MARK: value}}}
        await world.api.merge(PODS, world.namespace, pod, patch)

    async def test_one_stateful_set_is_one_instance(self, world: World) -> None:
        pods = await self.start(world)
        assert set(world.all(INFERSERVICES)) == {"svc-0"}
        assert set(world.all(INSTANCESETS)) == {"svc-0-prefill", "svc-0-decode"}
        assert set(world.all(STATEFULSETS)) == {"svc-0-prefill-0", "svc-0-decode-0"}
        labels = pods[PREFILL[1]]["metadata"]["labels"]
        assert labels["infer.huawei.com/inferservice-name"] == "svc-0"
        assert labels["infer.huawei.com/instanceset-name"] == "prefill"
        assert labels["infer.huawei.com/instanceset-index"] == "0"
        assert labels["fault-scheduling"] == "force"
        assert infer_objects.workload_of(pods[PREFILL[1]]) == "svc-0-prefill-0"
        assert world.all(STATEFULSETS)["svc-0-prefill-0"]["metadata"]["labels"]["fault-scheduling"] == "force"
        assert set(world.all(PODGROUPS)) == {"pg-svc-0-prefill-0", "pg-svc-0-decode-0"}

    async def test_a_mark_on_one_pod_rebuilds_its_instance_and_no_other(self, world: World) -> None:
        await self.start(world, gang=False)
        before, workload = world.uids(), world.all(STATEFULSETS)["svc-0-prefill-0"]["metadata"]["uid"]
        await self.mark(world, "Unhealthy-CardUnhealthy")
        await self.rebuilt(world, before)
        assert world.all(STATEFULSETS)["svc-0-prefill-0"]["metadata"]["uid"] != workload
        assert all(MARK not in (p["metadata"].get("annotations") or {}) for p in world.pods().values())

    async def test_with_gang_scheduling_a_deleted_pod_takes_its_instance_along(self, world: World) -> None:
        await self.start(world)
        before = world.uids()
        await world.force(PREFILL[1])
        await self.rebuilt(world, before)

    async def test_without_gang_scheduling_only_the_deleted_pod_comes_back(self, world: World) -> None:
        await self.start(world, gang=False)
        before = world.uids()
        await world.force(PREFILL[1])
        await world.until("it is back", lambda: world.uids().get(PREFILL[1]) not in (None, before[PREFILL[1]]))
        await world.running(4)
        assert world.uids()[PREFILL[0]] == before[PREFILL[0]]

    async def test_a_pod_marked_as_failed_needs_a_retry(self, world: World) -> None:
        await self.start(world, gang=False, labels={"fault-retry-times": "0"})
        before = world.uids()
        await self.mark(world, "Unhealthy-pod-failed")
        await self.mark(world, "Unhealthy-NodeUnhealthy", "svc-0-decode-0-0")
        await world.until(
            "decode is made anew",
            lambda: world.uids().get("svc-0-decode-0-0") not in (None, before["svc-0-decode-0-0"]),
        )
        assert {n: world.uids()[n] for n in PREFILL} == {n: before[n] for n in PREFILL}


class TestLab(Behaviour):
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        async with lab_world() as (world, _):
            yield world


class TestControlPlane(Behaviour):
    @pytest.fixture
    async def world(
        self, control_plane: ControlPlane, namespace: str, make_node: Callable[..., Object]
    ) -> AsyncIterator[World]:
        make_node("a")
        access = Access(control_plane.url, control_plane.token, control_plane.tls)
        async with real_world(access, namespace) as world:
            yield world
