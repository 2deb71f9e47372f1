"""What the other cluster tests build on: API server, scheduler and kwok behave as the warden relies on."""

import subprocess
from typing import Any

import aiohttp
import pytest

from tests.cluster.api import Api, ApiError
from tests.cluster.objects import condition, pod
from tests.cluster.plane import ControlPlane
from tests.conftest import MakeNode
from tests.waiting import wait_until

TAINT = {"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}


def taint(api: Api, node: dict[str, Any]) -> dict[str, Any]:
    """The warden's own kind of write: it holds only while nobody has changed the node since it was read."""
    tainted: dict[str, Any] = api.json_patch(
        f"/api/v1/nodes/{node['metadata']['name']}",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": node["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/spec/taints", "value": [TAINT]},
        ],
    )
    return tainted


def run_pod(api: Api, namespace: str, name: str) -> dict[str, Any]:
    """Create a pod for this test's nodes and wait until it runs."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.post(pods, pod(name, npus=1, node_selector={"test": namespace}))

    def running() -> dict[str, Any] | None:
        seen: dict[str, Any] = api.get(f"{pods}/{name}")
        return seen if condition(seen, "Ready") == "True" else None

    ready = wait_until(f"pod {name} Ready", running)
    assert ready is not None
    return ready


def test_taint_is_read_back_and_a_stale_write_is_refused(control_plane: ControlPlane, make_node: MakeNode) -> None:
    node = make_node("a")
    taint(control_plane.api, node)
    assert control_plane.api.get(f"/api/v1/nodes/{node['metadata']['name']}")["spec"]["taints"] == [TAINT]
    with pytest.raises(ApiError) as refused:
        taint(control_plane.api, node)
    assert refused.value.status in (409, 422)


def test_scheduler_honours_the_taint_and_kwok_runs_the_pod(
    control_plane: ControlPlane, namespace: str, make_node: MakeNode
) -> None:
    taint(control_plane.api, make_node("a"))
    healthy = make_node("b")
    names = {run_pod(control_plane.api, namespace, f"pod-{i}")["spec"]["nodeName"] for i in range(3)}
    assert names == {healthy["metadata"]["name"]}


def test_delete_takes_the_right_uid_only(control_plane: ControlPlane, namespace: str, make_node: MakeNode) -> None:
    make_node("a")
    api = control_plane.api
    running = run_pod(api, namespace, "pod")
    path = f"/api/v1/namespaces/{namespace}/pods/pod"

    with pytest.raises(ApiError) as wrong:
        api.delete(path, {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert wrong.value.status == 409
    assert "deletionTimestamp" not in api.get(path)["metadata"]

    api.delete(path, {"preconditions": {"uid": running["metadata"]["uid"]}, "gracePeriodSeconds": 1})
    wait_until("pod gone", lambda: api.find(path) is None)


def test_replacement_of_the_same_name_survives(
    control_plane: ControlPlane, namespace: str, make_node: MakeNode
) -> None:
    make_node("a")
    api = control_plane.api
    path = f"/api/v1/namespaces/{namespace}/pods/pod"
    run_pod(api, namespace, "pod")
    api.delete(path, {"gracePeriodSeconds": 1})
    wait_until("pod gone", lambda: api.find(path) is None)
    fresh = run_pod(api, namespace, "pod")
    # By then a second delete by name would have come; another pod's whole life bounds the wait.
    run_pod(api, namespace, "other")
    api.delete(f"/api/v1/namespaces/{namespace}/pods/other", {"gracePeriodSeconds": 1})
    wait_until("other pod gone", lambda: api.find(f"/api/v1/namespaces/{namespace}/pods/other") is None)
    assert api.get(path)["metadata"]["uid"] == fresh["metadata"]["uid"]


def test_killed_node_keeps_its_pods_until_it_is_revived(
    control_plane: ControlPlane, namespace: str, make_node: MakeNode
) -> None:
    api = control_plane.api
    name = make_node("a")["metadata"]["name"]
    node, path = f"/api/v1/nodes/{name}", f"/api/v1/namespaces/{namespace}/pods/pod"
    run_pod(api, namespace, "pod")

    control_plane.kill_node(name)
    api.delete(path, {"gracePeriodSeconds": 1})
    wait_until("node not Ready", lambda: condition(api.get(node), "Ready") == "Unknown", timeout_s=40)
    assert api.get(path)["metadata"]["deletionTimestamp"]

    control_plane.revive_node(name)
    wait_until("node Ready", lambda: condition(api.get(node), "Ready") == "True")
    wait_until("pod gone", lambda: api.find(path) is None)


def test_rbac_holds_for_another_user(control_plane: ControlPlane, namespace: str) -> None:
    """With the real kubectl, as an operator would look."""
    user = f"system:serviceaccount:{namespace}:nobody"
    base = [str(control_plane.binaries / "kubectl"), "--kubeconfig", str(control_plane.kubeconfig_for(user))]
    denied = subprocess.run([*base, "get", "nodes"], capture_output=True, text=True, timeout=30, check=False)
    assert denied.returncode != 0
    assert "Forbidden" in denied.stderr
    assert user in denied.stderr


def test_service_account_token_is_known_to_token_review(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "operator"}})
    review = {"spec": {"token": control_plane.token_for(namespace, "operator")}}
    status = control_plane.api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:operator"


async def test_apiserver_outage_and_return(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    with control_plane.outage("kube-apiserver"), pytest.raises(OSError, match="refused"):
        control_plane.api.get(path)
    headers = {"Authorization": f"Bearer {control_plane.token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(control_plane.url + path, ssl=control_plane.tls) as answer,
    ):
        assert (await answer.json())["metadata"]["name"] == namespace
