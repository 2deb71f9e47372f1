"""The stand-in for ascend-operator behaves as the real one was seen to, in the lab and on a real control plane."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from console.lab.cluster.client import Access, ApiError
from console.lab.cluster.lab import LabCluster
from console.lab.cluster.operators import ascendjob_objects as objects
from console.lab.cluster.operators.podgroups import next_phase
from console.lab.cluster.resources import ASCENDJOBS, PODGROUPS, PODS
from console.lab.cluster.workloads import lab_node, mindie_job, mindie_manager, rings_config
from tests.cluster.plane import ControlPlane
from tests.lab_cluster.world import World, lab_world, real_world
from tests.waiting import eventually

pytestmark = pytest.mark.slow

Object = dict[str, Any]

MASTER, WORKER = "server-master-0", "server-worker-0"


class Behaviour:
    """The checks. Subclasses say which cluster."""

    def job(self, world: World, **more: Any) -> Object:
        return mindie_job("server", namespace=world.namespace, node_selector=world.node_selector, **more)

    async def start(self, world: World, **more: Any) -> Object:
        """The job, applied and running."""
        job = await world.apply(self.job(world, **more))
        await world.running(2)
        await world.until("the job says Running", lambda: world.has("server", "Running"))
        return job

    async def test_a_job_gets_a_pod_group_and_its_pods(self, world: World) -> None:
        job = await self.start(world)
        uid = job["metadata"]["uid"]
        group = world.see(PODGROUPS, f"server-{uid}")
        assert group is not None
        assert group["metadata"]["labels"] == job["metadata"]["labels"]
        assert group["spec"]["minMember"] == 2
        assert group["spec"]["minTaskMember"] == {"master": 1, "worker": 1}
        assert group["spec"]["minResources"] == {"huawei.com/Ascend910": "16"}
        master, worker = world.pods()[MASTER], world.pods()[WORKER]
        labels = master["metadata"]["labels"]
        assert (labels["version"], labels["job-name"], labels["replica-type"]) == ("0", "server", "master")
        assert labels["training.kubeflow.org/job-role"] == "master"
        assert "training.kubeflow.org/job-role" not in worker["metadata"]["labels"]
        assert "fault-scheduling" not in labels
        assert master["metadata"]["annotations"]["hccl/rankIndex"] == "0"
        assert worker["metadata"]["annotations"]["hccl/rankIndex"] == "1"
        assert worker["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"server-{uid}"
        (owner,) = worker["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("AscendJob", uid, True)
        assert master["spec"]["nodeName"] != worker["spec"]["nodeName"]
        assert {"name": "MINDX_TASK_ID", "value": "mindie-demo"} in master["spec"]["containers"][0]["env"]

    async def test_both_pods_deleted_come_back_under_their_names_one_round_later(self, world: World) -> None:
        await self.start(world)
        before = world.uids()
        await world.force(MASTER, WORKER)
        after = await world.running(2, but=before)
        assert after.keys() == before.keys()
        assert {pod["metadata"]["labels"]["version"] for pod in after.values()} == {"1"}

    async def test_one_pod_deleted_leaves_the_other_alone(self, world: World) -> None:
        await self.start(world)
        before = world.uids()
        await world.force(MASTER)
        await world.until("a new master", lambda: world.uids().get(MASTER) not in (None, before[MASTER]))
        await world.running(2)
        assert world.uids()[WORKER] == before[WORKER]
        assert world.pods()[WORKER]["metadata"]["labels"]["version"] == "0"
        assert world.pods()[MASTER]["metadata"]["labels"]["version"] == "1"

    async def test_a_delete_of_another_incarnation_is_a_conflict(self, world: World) -> None:
        await self.start(world)
        with pytest.raises(ApiError) as caught:
            await world.api.delete(PODS, world.namespace, MASTER, uid="00000000-0000-4000-8000-000000000000")
        assert caught.value.status == 409

    async def test_a_failed_pod_without_ledger_ends_the_job_for_good(self, world: World) -> None:
        await self.start(world)
        await world.fail(MASTER)
        await world.until("the job is Failed", lambda: world.has("server", "Failed"))
        await world.until("the PodGroup is gone", lambda: not world.all(PODGROUPS))
        assert world.pods().keys() == {MASTER, WORKER}, "the pods stay"
        await world.force(MASTER, WORKER)
        await world.apply(mindie_job("witness", namespace=world.namespace, node_selector=world.node_selector))
        assert (await world.running(2)).keys() == {"witness-master-0", "witness-worker-0"}

    async def test_with_a_ledger_it_restarts_and_survives(self, world: World) -> None:
        job = await world.apply(self.job(world))
        await world.keep_retries(job, 10)
        await world.running(2)
        await world.until("the job says Running", lambda: world.has("server", "Running"))
        before = world.uids()
        await world.fail(MASTER)
        await world.until("the job is Restarting", lambda: world.has("server", "Restarting"))
        assert not world.has("server", "Running")
        assert world.uids() == before, "the operator deletes nothing by itself"
        await world.force(MASTER, WORKER)
        await world.running(2, but=before)
        await world.until("the job says Running", lambda: world.has("server", "Running"))
        assert not world.has("server", "Restarting")

    async def test_an_exit_code_policy_restarts_without_a_ledger(self, world: World) -> None:
        job = self.job(world)
        for spec in job["spec"]["replicaSpecs"].values():
            spec["restartPolicy"] = "ExitCode"
        await world.apply(job)
        await world.running(2)
        before = world.uids()
        await world.fail(WORKER, exit_code=137)
        await world.until("a new worker", lambda: world.uids().get(WORKER) not in (None, before[WORKER]))
        await world.running(2)
        assert not world.has("server", "Failed")
        assert world.uids()[MASTER] == before[MASTER]

    async def test_retries_limit_the_rounds_of_deletions(self, world: World) -> None:
        await self.start(world, labels={"fault-retry-times": "1"})
        first = world.uids()
        await world.force(MASTER, WORKER)
        await world.running(2, but=first)
        await world.force(MASTER)
        await world.until("the job is Failed", lambda: world.has("server", "Failed"))
        await world.until("the PodGroup is gone", lambda: not world.all(PODGROUPS))
        assert world.pods().keys() == {WORKER}

    async def test_a_job_that_is_deleted_takes_its_pods_along(self, world: World) -> None:
        await self.start(world)
        await world.api.delete(ASCENDJOBS, world.namespace, "server")
        await world.until("nothing is left", lambda: not world.pods() and not world.all(PODGROUPS))


class TestLab(Behaviour):
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        async with lab_world() as (world, self.lab):
            yield world

    lab: LabCluster

    async def test_a_terminating_pod_on_a_dead_node_holds_its_name(self, world: World) -> None:
        await self.start(world)
        before = world.uids()
        self.lab.kubelets.kill(world.pods()[MASTER]["spec"]["nodeName"])
        await world.api.delete(PODS, world.namespace, MASTER)
        await world.force(WORKER)
        await world.until("a new worker", lambda: world.uids().get(WORKER) not in (None, before[WORKER]))
        assert world.uids()[MASTER] == before[MASTER]
        assert world.has("server", "Running"), "the job's word is worth nothing"
        await world.force(MASTER)
        await world.running(2, but=before)

    async def test_without_capacity_both_wait_and_two_free_nodes_bind_both(self, world: World) -> None:
        await self.start(world)
        for node in self.lab.store.objects("nodes")[:5]:
            await cordon(world, node["metadata"]["name"], True)
        before = world.uids()
        await world.force(MASTER, WORKER)

        def waiting() -> bool:
            pods = world.pods().values()
            reasons = {c.get("reason") for pod in pods for c in pod["status"].get("conditions", [])}
            return len(pods) == 2 and reasons == {"Unschedulable"} and world.uids() != before

        await world.until("both are back and wait", waiting)
        await world.until("the PodGroup is enqueued", lambda: phase(world) == "Inqueue")
        assert not any(pod["spec"].get("nodeName") for pod in world.pods().values()), "one free node binds nothing"
        await cordon(world, "node-0", False)
        await world.running(2)

    async def test_while_the_pod_group_is_pending_nothing_is_created(self, world: World) -> None:
        await world.apply(self.job(world, pods=9))
        await world.until("the over-committed group is Pending", lambda: phase(world) == "Pending")
        assert not world.pods()
        for number in (6, 7):
            self.lab.store.load(lab_node(f"node-{number}", number=number))
        await world.until("nine pods", lambda: len(world.pods()) == 9)

    async def test_the_operator_fills_the_rank_table_when_every_pod_has_chips(self, world: World) -> None:
        job = self.job(world)
        await world.apply(rings_config(job))
        await world.apply(job)
        before = await world.running(2)

        def table() -> Object:
            configmap = self.lab.store.get("configmaps", world.namespace, "rings-config-server")
            assert configmap is not None
            found: Object = json.loads(configmap["data"]["hccl.json"])
            return found

        def addresses() -> list[str]:
            return [server["container_ip"] for server in table().get("server_list", [])]

        await world.until("the table is complete", lambda: table()["status"] == "completed")
        assert addresses() == [before[MASTER]["status"]["podIP"], before[WORKER]["status"]["podIP"]]
        ranks = [d["rank_id"] for server in table()["server_list"] for d in server["device"]]
        assert ranks == [str(rank) for rank in range(16)]
        old = addresses()
        nodes = [node["metadata"]["name"] for node in self.lab.store.objects("nodes")]
        for name in nodes:
            await cordon(world, name, True)
        await world.force(MASTER)
        await world.until("the table is taken back", lambda: table()["status"] == "initializing")
        assert addresses() == old, "the old servers stay listed"
        for name in nodes:
            await cordon(world, name, False)
        await world.until("the table is complete", lambda: table()["status"] == "completed")
        assert addresses() == [pod["status"]["podIP"] for pod in (world.pods()[MASTER], world.pods()[WORKER])]
        assert addresses()[0] != old[0]

    async def test_a_rank_table_that_comes_after_the_pods_is_never_filled(self, world: World) -> None:
        job = self.job(world)
        await world.apply(job)
        before = await world.running(2)
        await world.until("the operator has seen both with their chips", lambda: world.has("server", "Running"))
        await world.force(MASTER)
        before = await world.running(2, but={MASTER: before[MASTER]["metadata"]["uid"]})
        await world.apply(rings_config(job))
        await world.force(MASTER, WORKER)
        await world.running(2, but={name: pod["metadata"]["uid"] for name, pod in before.items()})
        await world.until("the job says Running", lambda: world.has("server", "Running"))
        configmap = self.lab.store.get("configmaps", world.namespace, "rings-config-server")
        assert configmap is not None
        assert configmap["data"]["hccl.json"] == rings_config(job)["data"]["hccl.json"]

    async def test_retries_that_are_no_number_make_nothing(self, world: World) -> None:
        await world.apply(self.job(world, labels={"fault-retry-times": "abc"}))
        await world.apply(mindie_job("witness", namespace=world.namespace))
        await world.running(2)
        assert (world.see(ASCENDJOBS, "server") or {}).get("status") is None
        assert len(world.all(PODGROUPS)) == 1

    async def test_a_cluster_without_volcano_gets_pods_without_a_group(self) -> None:
        async with LabCluster(nodes=2, without={"podgroups"}, ready_s=0.05) as lab:
            lab.apply(mindie_manager("coordinator"))
            await eventually("two pods", lambda: len(lab.store.objects("pods")) == 2)
            ranks = {pod["metadata"]["annotations"]["hccl/rankIndex"] for pod in lab.store.objects("pods")}
            assert ranks == {"0"}, "in a job without NPUs everybody is 0"


class TestControlPlane(Behaviour):
    @pytest.fixture
    async def world(
        self, control_plane: ControlPlane, namespace: str, make_node: Callable[..., Object]
    ) -> AsyncIterator[World]:
        for name in ("a", "b", "c"):
            make_node(name)
        access = Access(control_plane.url, control_plane.token, control_plane.tls)
        async with real_world(access, namespace) as world:
            yield world


def phase(world: World) -> str | None:
    """The phase of the only PodGroup."""
    groups = list(world.all(PODGROUPS).values())
    return (groups[0].get("status") or {}).get("phase") if groups else None


async def cordon(world: World, node: str, cordoned: bool) -> None:
    await world.api.request(
        "PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}}, "application/merge-patch+json"
    )


@pytest.mark.parametrize(
    ("phase_now", "bound", "members", "wanted", "expected"),
    [
        ("", 0, 0, 16, "Inqueue"),
        ("", 0, 0, 64, "Pending"),
        ("Pending", 0, 2, 16, "Inqueue"),
        ("Inqueue", 1, 2, 16, "Inqueue"),
        ("Inqueue", 2, 2, 16, "Running"),
        ("Running", 1, 2, 16, "Unknown"),
        ("Running", 0, 2, 16, "Pending"),
        ("Unknown", 2, 2, 16, "Running"),
        ("Unknown", 0, 0, 16, "Pending"),
    ],
)
def test_phases_of_a_pod_group(phase_now: str, bound: int, members: int, wanted: int, expected: str) -> None:
    group = {
        "spec": {"minMember": 2, "minResources": {"huawei.com/Ascend910": str(wanted)}},
        "status": {"phase": phase_now},
    }
    pods = [{"spec": {"nodeName": "n"} if i < bound else {}, "status": {}} for i in range(members)]
    assert next_phase(group, pods, capacity=32) == expected


@pytest.mark.parametrize(
    ("backoff", "label", "limit"),
    [(None, "3", 3), (None, "0", -1), (None, None, -1), (5, "3", 5), (None, "-2", -2)],
)
def test_how_many_rounds_a_job_survives(backoff: int | None, label: str | None, limit: int) -> None:
    job: Object = {"metadata": {"labels": {} if label is None else {"fault-retry-times": label}}, "spec": {}}
    if backoff is not None:
        job["spec"]["runPolicy"] = {"backoffLimit": backoff}
    assert objects.backoff_limit(job) == limit
