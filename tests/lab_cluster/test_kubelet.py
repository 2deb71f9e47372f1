"""The lab's kubelets and scheduler at work: what a pod goes through from created to gone."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, ApiException, Configuration, CoreV1Api, V1DeleteOptions

from console.lab.cluster.lab import LabCluster
from console.lab.cluster.podstatus import CHIP_CONFIGURATION, REAL_CHIPS, chips_of
from console.lab.cluster.workloads import NPU
from tests.waiting import eventually

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"


def make(lab: LabCluster, name: str, *, npus: int = 8, **spec: Any) -> None:
    resources = {"requests": {NPU: str(npus)}} if npus else {}
    body = {"containers": [{"name": "engine", "image": "none", "resources": resources}], **spec}
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body})


def find(lab: LabCluster, name: str) -> Object | None:
    return lab.store.get("pods", "default", name)


def condition(obj: Object | None, kind: str) -> Object:
    found: list[Object] = (obj or {}).get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {"status": None})


async def runs(lab: LabCluster, name: str) -> Object:
    """The pod, once it is Ready."""
    await eventually(f"{name} is Ready", lambda: condition(find(lab, name), "Ready")["status"] == "True")
    pod = find(lab, name)
    assert pod is not None
    return pod


async def test_a_pod_is_bound_runs_and_holds_chips(lab: LabCluster) -> None:
    make(lab, "a", npus=4, nodeSelector={"kubernetes.io/hostname": "node-1"})
    make(lab, "b", npus=4, nodeSelector={"kubernetes.io/hostname": "node-1"})
    a, b = await runs(lab, "a"), await runs(lab, "b")
    assert a["spec"]["nodeName"] == b["spec"]["nodeName"] == "node-1"
    assert (a["status"]["phase"], a["status"]["hostIP"]) == ("Running", "10.0.0.12")
    assert a["status"]["podIP"] != b["status"]["podIP"]
    assert sorted(chips_of(a) + chips_of(b)) == list(range(8))
    assert a["metadata"]["annotations"][NPU] == a["metadata"]["annotations"][REAL_CHIPS]
    assert '"super_pod_id":-1' in a["metadata"]["annotations"][CHIP_CONFIGURATION]


async def test_a_pod_without_room_says_so_and_is_bound_when_there_is_some(lab: LabCluster) -> None:
    for name in ("a", "b", "c", "d", "e"):
        make(lab, name)
    await eventually("e waits", lambda: condition(find(lab, "e"), "PodScheduled").get("reason") == "Unschedulable")
    assert "4 Insufficient huawei.com/Ascend910" in condition(find(lab, "e"), "PodScheduled")["message"]
    await runs(lab, "a")
    assert lab.store.request("DELETE", f"{PODS}/a", body={"gracePeriodSeconds": 0}).ok
    assert (await runs(lab, "e"))["spec"]["nodeName"] == "node-0"
    assert len(chips_of(await runs(lab, "e"))) == 8


async def test_a_deleted_pod_is_stopped_by_its_kubelet(lab: LabCluster) -> None:
    make(lab, "a")
    await runs(lab, "a")
    assert lab.store.request("DELETE", f"{PODS}/a").body["metadata"]["deletionGracePeriodSeconds"] == 30
    assert find(lab, "a") is not None
    await eventually("a is gone", lambda: find(lab, "a") is None, timeout_s=5)


async def test_a_dead_node_stops_nothing_and_takes_nothing(lab: LabCluster) -> None:
    make(lab, "a", nodeSelector={"kubernetes.io/hostname": "node-2"})
    await runs(lab, "a")
    lab.kubelets.kill("node-2")
    node = lab.store.get("nodes", "", "node-2")
    assert condition(node, "Ready")["status"] == "Unknown"
    assert condition(find(lab, "a"), "Ready")["status"] == "False"
    assert lab.store.request("DELETE", f"{PODS}/a").ok
    make(lab, "b", npus=1, nodeSelector={"kubernetes.io/hostname": "node-2"})
    make(lab, "witness", npus=1)
    await runs(lab, "witness")
    assert find(lab, "a") is not None, "nobody has stopped it"
    assert "not ready" in condition(find(lab, "b"), "PodScheduled")["message"]
    lab.kubelets.revive("node-2")
    await eventually("a is gone", lambda: find(lab, "a") is None, timeout_s=5)
    await runs(lab, "b")
    revived = lab.store.get("nodes", "", "node-2")
    assert revived is not None
    assert revived["spec"]["taints"] == []


async def test_a_node_that_boots_again_starts_what_may_be_started_again(lab: LabCluster) -> None:
    on = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}
    make(lab, "always", npus=0, **on)
    make(lab, "never", npus=0, restartPolicy="Never", **on)
    await runs(lab, "always")
    await runs(lab, "never")
    lab.kubelets.kill("node-2")
    lab.kubelets.revive("node-2")
    again = await runs(lab, "always")
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    ended = find(lab, "never")
    assert ended is not None
    assert ended["status"]["phase"] == "Failed"


async def test_a_stuck_pod_ends_by_force_only(lab: LabCluster) -> None:
    make(lab, "a", nodeSelector={"kubernetes.io/hostname": "node-0"})
    await runs(lab, "a")
    lab.kubelets.stuck.add("node-0")
    assert lab.store.request("DELETE", f"{PODS}/a", body={"gracePeriodSeconds": 1}).ok
    make(lab, "witness", nodeSelector={"kubernetes.io/hostname": "node-1"})
    await runs(lab, "witness")
    assert lab.store.request("DELETE", f"{PODS}/witness", body={"gracePeriodSeconds": 1}).ok
    await eventually("the other kubelet has stopped its pod", lambda: find(lab, "witness") is None)
    assert find(lab, "a") is not None
    assert lab.store.request("DELETE", f"{PODS}/a", body={"gracePeriodSeconds": 0}).ok
    assert find(lab, "a") is None


async def test_containers_that_exit_follow_the_restart_policy(lab: LabCluster) -> None:
    make(lab, "never", npus=0, restartPolicy="Never")
    make(lab, "always", npus=0, restartPolicy="Always")
    for name in ("never", "always"):
        await runs(lab, name)
        lab.kubelets.fail("default", name, exit_code=137)
    never, always = find(lab, "never"), find(lab, "always")
    assert never is not None
    assert always is not None
    assert never["status"]["phase"] == "Failed"
    assert never["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert condition(never, "Ready")["status"] == "False"
    assert always["status"]["phase"] == "Running"
    assert always["status"]["containerStatuses"][0]["restartCount"] == 1
    assert always["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


async def test_it_ends_with_nothing_left() -> None:
    async with LabCluster(nodes=1) as lab:
        make(lab, "a")
    make(lab, "late")
    assert find(lab, "late") is not None
    assert lab.server.watching == 0


async def test_the_official_client_reads_what_the_lab_serves(lab: LabCluster) -> None:
    make(lab, "a")
    await runs(lab, "a")
    async with ApiClient(Configuration(host=lab.url)) as client:
        core = CoreV1Api(client)
        (pod,) = (await core.list_namespaced_pod("default")).items
        assert (pod.metadata.name, pod.status.container_statuses[0].ready) == ("a", True)
        nodes = (await core.list_node()).items
        assert {node.status.allocatable[NPU] for node in nodes} == {"8"}
        with pytest.raises(ApiException) as caught:
            await core.delete_namespaced_pod("a", "default", body=V1DeleteOptions(preconditions={"uid": "other"}))
        assert caught.value.status == 409
