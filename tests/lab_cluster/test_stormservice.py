"""The stand-in for AIBrix behaves as the real controllers were seen to, in the lab and on a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from console.lab.cluster.client import Access
from console.lab.cluster.lab import LabCluster
from console.lab.cluster.operators import storm_objects as objects
from console.lab.cluster.resources import PODGROUPS, PODS, PODSETS, ROLESETS, STORMSERVICES
from console.lab.cluster.workloads import storm_service
from tests.cluster.plane import ControlPlane
from tests.lab_cluster.world import World, lab_world, real_world

pytestmark = pytest.mark.slow

Object = dict[str, Any]

PREFIX = "stormservice.orchestration.aibrix.ai"


class Behaviour:
    """The checks. Subclasses say which cluster."""

    async def start(self, world: World, roles: Mapping[str, tuple[int, int]], **more: Any) -> dict[str, Object]:
        """The service ``svc``, applied and running; NPUs are asked for by nobody, so that any node will do."""
        service = storm_service(
            "svc", roles, namespace=world.namespace, node_selector=world.node_selector, npus=0, **more
        )
        await world.apply(service)
        return await world.running(sum(count * size for count, size in roles.values()) * more.get("replicas", 1))

    async def test_roles_of_several_pods_hang_on_pod_sets(self, world: World) -> None:
        pods = await self.start(world, {"prefill": (1, 2), "decode": (1, 2)})
        (role_set,) = world.all(ROLESETS).values()
        assert role_set["metadata"]["name"].startswith("svc-roleset-")
        assert role_set["metadata"]["labels"]["app"] == "svc"
        pod_sets = world.all(PODSETS)
        assert {p["metadata"]["labels"]["role-name"] for p in pod_sets.values()} == {"prefill", "decode"}
        assert pods.keys() == {f"{pod_set}-{i}" for pod_set in pod_sets for i in (0, 1)}
        for name, pod in pods.items():
            labels, (owner,) = pod["metadata"]["labels"], pod["metadata"]["ownerReferences"]
            pod_set = pod_sets[name[:-2]]
            assert (owner["kind"], owner["uid"]) == ("PodSet", pod_set["metadata"]["uid"])
            assert labels[f"{PREFIX}/podset-name"] == name[:-2]
            assert labels[f"{PREFIX}/pod-group-index"] == name[-1]
            assert labels[f"{PREFIX}/role-replica-index"] == "0"
            assert labels["roleset-name"] == role_set["metadata"]["name"]
            assert labels["storm-service-name"] == "svc"
            assert labels["fault-scheduling"] == "force"
            assert name == f"{labels['roleset-name']}-{labels['role-name']}-{labels['role-template-hash']}-0-{name[-1]}"
            assert "app" not in labels
            assert pod_set["metadata"]["finalizers"] == ["orchestration.aibrix.ai/podset-finalizer"]
        assert not world.all(PODGROUPS)

    async def test_a_deleted_pod_of_a_pod_set_comes_back_its_sibling_stays(self, world: World) -> None:
        first, second, *_ = await self.start(world, {"decode": (1, 2)})
        before = world.uids()
        await world.force(first)
        await world.until("it is back", lambda: world.uids().get(first) not in (None, before[first]))
        await world.running(2)
        assert world.uids()[second] == before[second]

    async def test_both_pods_deleted_leave_the_other_role_alone(self, world: World) -> None:
        pods = await self.start(world, {"prefill": (1, 2), "decode": (1, 2)})
        before = world.uids()
        mine = [name for name in pods if "prefill" in name]
        await world.force(*mine)
        await world.until("both are back", lambda: all(world.uids().get(n) not in (None, before[n]) for n in mine))
        after = await world.running(4)
        assert after.keys() == before.keys()
        assert {n: u for n, u in world.uids().items() if "decode" in n} == {
            n: u for n, u in before.items() if "decode" in n
        }

    async def test_a_failed_pod_of_a_pod_set_stays_until_somebody_deletes_it(self, world: World) -> None:
        first, second = await self.start(world, {"decode": (1, 2)})
        before = world.uids()
        await world.fail(first)
        await world.force(second)  # a sibling's return shows that the PodSet has looked since
        await world.until("the sibling is back", lambda: world.uids().get(second) not in (None, before[second]))
        assert world.uids()[first] == before[first]
        await world.force(first)
        await world.until("it is back", lambda: world.uids().get(first) not in (None, before[first]))

    async def test_a_sibling_that_has_restarted_is_the_one_that_is_replaced(self, world: World) -> None:
        first, second = await self.start(world, {"decode": (1, 2)})
        before = world.uids()
        restarted = {"name": "engine", "restartCount": 1, "ready": True, "image": "none", "imageID": ""}
        status = {"status": {"containerStatuses": [restarted]}}
        await world.api.merge(PODS, world.namespace, second, status, subresource="status")
        await world.fail(first)
        await world.until("a new sibling", lambda: world.uids().get(second) not in (None, before[second]))
        assert world.uids()[first] == before[first]

    async def test_a_deleted_pod_set_is_made_anew_and_takes_a_failed_pod_along(self, world: World) -> None:
        first, second = await self.start(world, {"decode": (1, 2)})
        before = world.uids()
        (name, old) = next(iter(world.all(PODSETS).items()))
        await world.fail(first)
        await world.api.delete(PODSETS, world.namespace, name, uid=old["metadata"]["uid"])
        after = await world.running(2, but=before)
        assert after.keys() == {first, second}
        assert world.all(PODSETS)[name]["metadata"]["uid"] != old["metadata"]["uid"]

    @pytest.mark.parametrize("stateful", [True, False])
    async def test_a_failed_pod_of_size_one_is_replaced_by_the_role_set(self, world: World, stateful: bool) -> None:
        first, second = await self.start(world, {"decode": (2, 1)}, stateful=stateful)
        before = world.uids()
        (role_set,) = world.all(ROLESETS).values()
        (owner,) = world.pods()[first]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("RoleSet", role_set["metadata"]["uid"])
        labels = world.pods()[first]["metadata"]["labels"]
        assert labels[f"{PREFIX}/role-revision-name"] == "svc-decode-1"
        assert (f"{PREFIX}/role-replica-index" in labels) == stateful
        assert f"{PREFIX}/podset-name" not in labels
        await world.fail(first)
        await world.until("the failed one is gone", lambda: before[first] not in world.uids().values())
        await world.running(2)
        assert world.uids()[second] == before[second]
        assert (first in world.uids()) == stateful

    async def test_an_edited_template_rebuilds_the_role_under_another_hash(self, world: World) -> None:
        before = await self.start(world, {"prefill": (1, 2), "decode": (1, 1)})
        service = await world.api.get(STORMSERVICES, world.namespace, "svc")
        roles = service["spec"]["template"]["spec"]["roles"]
        prefill = next(role for role in roles if role["name"] == "prefill")
        prefill["template"]["metadata"]["labels"]["tier"] = "new"
        await world.api.merge(STORMSERVICES, world.namespace, "svc", {"spec": {"template": {"spec": {"roles": roles}}}})

        def rebuilt() -> bool:
            now = [n for n in world.pods() if "prefill" in n]
            return len(now) == 2 and not set(now) & set(before)

        await world.until("prefill is rebuilt", rebuilt)
        assert all(world.pods()[n]["metadata"]["labels"]["tier"] == "new" for n in world.pods() if "prefill" in n)
        assert [n for n in world.pods() if "decode" in n] == [n for n in before if "decode" in n]

    async def test_two_replicas_are_two_role_sets_and_fewer_take_the_last(self, world: World) -> None:
        await self.start(world, {"decode": (1, 2)}, replicas=2)
        index = f"{PREFIX}/roleset-index"
        assert sorted(r["metadata"]["annotations"][index] for r in world.all(ROLESETS).values()) == ["0", "1"]
        await world.api.merge(STORMSERVICES, world.namespace, "svc", {"spec": {"replicas": 1}})
        await world.until("one is left", lambda: len(world.all(ROLESETS)) == 1 and len(world.pods()) == 2)
        (left,) = world.all(ROLESETS).values()
        assert left["metadata"]["annotations"][index] == "0"

    async def test_a_deleted_service_ends_from_the_bottom_up(self, world: World) -> None:
        await self.start(world, {"prefill": (1, 2), "decode": (1, 1)})
        await world.api.delete(STORMSERVICES, world.namespace, "svc")
        await world.until("nothing is left", lambda: not any(map(world.all, (PODS, PODSETS, ROLESETS, STORMSERVICES))))

    async def test_labels_patched_onto_a_pod_set_reach_the_next_pods(self, world: World) -> None:
        first, *_ = await self.start(world, {"decode": (1, 2)})
        before = world.uids()
        (name,) = world.all(PODSETS)
        await world.api.merge(PODSETS, world.namespace, name, {"metadata": {"labels": {"tier": "patched"}}})
        await world.until("the patch is seen", lambda: "tier" in world.all(PODSETS)[name]["metadata"]["labels"])
        await world.force(first)
        await world.until("it is back", lambda: world.uids().get(first) not in (None, before[first]))
        assert world.pods()[first]["metadata"]["labels"]["tier"] == "patched"


class TestLab(Behaviour):
    lab: LabCluster

    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        async with lab_world() as (world, self.lab):
            yield world

    async def test_a_terminating_pod_on_a_dead_node_holds_its_slot(self, world: World) -> None:
        pods = await self.start(world, {"prefill": (1, 2), "decode": (1, 1)})
        before = world.uids()
        victims = [next(n for n in pods if role in n) for role in ("prefill", "decode")]
        for name in victims:
            self.lab.kubelets.kill(world.pods()[name]["spec"]["nodeName"])
            await world.api.delete(PODS, world.namespace, name)
        await world.apply(storm_service("witness", {"decode": (1, 1)}, npus=0))
        await world.until("the witness runs", lambda: any("witness" in n for n in world.pods()))
        assert all(world.uids()[name] == before[name] for name in victims)
        await world.force(*victims)
        await world.until("both are back", lambda: all(world.uids().get(n) not in (None, before[n]) for n in victims))

    @pytest.mark.parametrize("level", ["role", "roleset"])
    async def test_a_volcano_strategy_makes_a_pod_group_at_its_level(self, world: World, level: str) -> None:
        service = storm_service("svc", {"prefill": (1, 2), "decode": (1, 1)}, npus=0)
        spec = service["spec"]["template"]["spec"]
        strategy: Object = {"schedulingStrategy": {"volcanoSchedulingStrategy": {}}}
        if level == "roleset":
            spec.update(strategy)
        else:
            spec["roles"] = [{**role, **strategy} for role in spec["roles"]]
        await world.apply(service)
        pods = await world.running(3)
        groups = world.all(PODGROUPS)
        owners = world.all(ROLESETS if level == "roleset" else PODSETS)
        assert groups.keys() == owners.keys()
        in_group = {name for name, pod in pods.items() if pod["metadata"]["labels"].get("scheduling.k8s.io/group-name")}
        assert len(in_group) == (3 if level == "roleset" else 2), "size 1 with a strategy of the role: silently none"


class TestControlPlane(Behaviour):
    @pytest.fixture
    async def world(
        self, control_plane: ControlPlane, namespace: str, make_node: Callable[..., Object]
    ) -> AsyncIterator[World]:
        make_node("a")
        access = Access(control_plane.url, control_plane.token, control_plane.tls)
        async with real_world(access, namespace) as world:
            yield world


def test_the_hash_follows_the_template_and_nothing_else() -> None:
    service = storm_service("svc", {"decode": (1, 2)})
    role = service["spec"]["template"]["spec"]["roles"][0]
    same = objects.template_hash({**role, "replicas": 5})
    assert same == objects.template_hash(role)
    edited = {**role, "template": {**role["template"], "metadata": {"labels": {}}}}
    assert objects.template_hash(edited) != same
    assert len(same) == 6
