"""Of a node the reconciler's account changes its own taint, annotations and condition, of a pod one mark, whatever RBAC
lets it write."""

from typing import Any

import pytest

from reconciler.core.handing_over import POD_STATUS
from shared.names import (
    CONDITION,
    ISOLATE_ANNOTATION,
    ISOLATION_ANNOTATION,
    OFFERED_ANNOTATION,
    RELEASE_ANNOTATION,
    TAINT_KEY,
)
from tests.cluster.api import Api, ApiError
from tests.cluster.plane import ControlPlane
from tests.waiting import wait_until

OURS = {"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}
FOREIGN = {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}
NODE = "guarded"
PATH = f"/api/v1/nodes/{NODE}"
STRATEGIC = "application/strategic-merge-patch+json"

Patch = dict[str, Any]


@pytest.fixture
def node(applied: ControlPlane, as_reconciler: Api) -> Any:
    """A node that nobody else writes, with a foreign taint, label and annotation and a wish of a person."""
    metadata = {
        "name": NODE,
        "labels": {"zone": "a"},
        "annotations": {"example.com/note": "mine", ISOLATE_ANNOTATION: "fan", RELEASE_ANNOTATION: "now"},
    }
    condition = {"type": "Ready", "status": "True"}
    applied.api.post("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": [FOREIGN]}})
    status = {"conditions": [condition], "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    applied.api.merge_patch(f"{PATH}/status", {"status": status})
    wait_until("the limits are in force", lambda: _why_not(as_reconciler, {"metadata": {"labels": {"zone": "b"}}}))
    wait_until("the node controller is done with it", lambda: taints(as_reconciler) == [FOREIGN])
    yield as_reconciler
    applied.api.delete(PATH)


def taints(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(PATH)["spec"].get("taints") or []
    return found


def _why_not(api: Api, patch: Patch, path: str = PATH, policy: str = "npuwarden-reconciler-nodes") -> str:
    """What the policy says to the patch, on trial; empty when it is admitted."""
    try:
        api.merge_patch(f"{path}?dryRun=All", patch)
    except ApiError as exc:
        if policy not in str(exc):
            raise
        return str(exc)
    return ""


def test_its_own_taint_record_and_condition_may_come_and_go(node: Api) -> None:
    kept = taints(node)
    node.merge_patch(
        PATH, {"metadata": {"annotations": {ISOLATION_ANNOTATION: "{}"}}, "spec": {"taints": [*kept, OURS]}}
    )
    node.merge_patch(PATH, {"metadata": {"annotations": {OFFERED_ANNOTATION: '{"huawei.com/Ascend910":8}'}}})
    softer = {**OURS, "effect": "PreferNoSchedule"}
    node.merge_patch(PATH, {"spec": {"taints": [*kept, softer]}})
    gone = {ISOLATION_ANNOTATION: None, OFFERED_ANNOTATION: None, ISOLATE_ANNOTATION: None, RELEASE_ANNOTATION: None}
    node.merge_patch(PATH, {"metadata": {"annotations": gone}, "spec": {"taints": kept}})
    ours = {"type": CONDITION, "status": "False", "reason": "r", "message": "m"}
    node.request("PATCH", f"{PATH}/status", {"status": {"conditions": [ours]}}, content_type=STRATEGIC)
    seen = node.get(PATH)
    assert [one["key"] for one in seen["spec"]["taints"]] == [one["key"] for one in kept]
    assert not seen["metadata"]["annotations"].keys() & gone.keys()
    assert CONDITION in {one["type"] for one in seen["status"]["conditions"]}


TAINT, EVICTS, CORDON = "the taint npuwarden.io/fault only", "evicts nobody", "spec but its taint"
LABELS, NOTES, WISH = "labels, finalizers or owners", "annotations npuwarden.io/isolation", "are a person's"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param({"spec": {"taints": [OURS]}}, TAINT, id="foreign taint off"),
        pytest.param({"spec": {"taints": [{**FOREIGN, "value": "no"}]}}, TAINT, id="foreign taint changed"),
        pytest.param({"spec": {"taints": [FOREIGN, {"key": "b", "effect": "NoSchedule"}]}}, TAINT, id="another taint"),
        pytest.param({"spec": {"taints": [FOREIGN, {**OURS, "effect": "NoExecute"}]}}, EVICTS, id="NoExecute"),
        pytest.param({"spec": {"unschedulable": True}}, CORDON, id="cordon"),
        pytest.param({"metadata": {"labels": {"zone": "b"}}}, LABELS, id="label changed"),
        pytest.param({"metadata": {"labels": {"new": "b"}}}, LABELS, id="label added"),
        pytest.param({"metadata": {"labels": {"zone": None}}}, LABELS, id="label off"),
        pytest.param({"metadata": {"finalizers": ["example.com/hold"]}}, LABELS, id="finalizer"),
        pytest.param({"metadata": {"annotations": {"example.com/note": "changed"}}}, NOTES, id="annotation changed"),
        pytest.param({"metadata": {"annotations": {"example.com/note": None}}}, NOTES, id="annotation off"),
        pytest.param({"metadata": {"annotations": {"example.com/new": "x"}}}, NOTES, id="annotation added"),
        pytest.param({"metadata": {"annotations": {ISOLATE_ANNOTATION: "other"}}}, WISH, id="a wish rewritten"),
    ],
)
def test_everything_else_of_a_node_is_refused(node: Api, patch: Patch, why: str) -> None:
    assert why in _why_not(node, patch)


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": []},
        {"capacity": {"cpu": "8"}},
        {"allocatable": {"huawei.com/Ascend910": "0"}},
        {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]},
    ],
    ids=["Ready", "conditions off", "capacity", "allocatable", "address"],
)
def test_everything_else_of_its_status_is_refused(node: Api, status: Patch) -> None:
    assert "condition" in _why_not(node, {"status": status}, f"{PATH}/status")


def test_others_are_not_limited(node: Api, applied: ControlPlane) -> None:
    seen = applied.api.merge_patch(PATH, {"metadata": {"labels": {"zone": "b"}}, "spec": {"unschedulable": True}})
    assert seen["metadata"]["labels"]["zone"] == "b"


POD = "/api/v1/namespaces/default/pods/guarded"


@pytest.fixture
def pod(applied: ControlPlane, as_reconciler: Api) -> Any:
    """Somebody's pod, which no node runs; the policy of pods is in force."""
    applied.api.post(
        "/api/v1/namespaces/default/pods",
        {
            "metadata": {"name": "guarded", "labels": {"app": "a"}, "annotations": {"example.com/note": "mine"}},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/main:1"}],
                "nodeSelector": {"no": "node"},
                "automountServiceAccountToken": False,
            },
        },
    )
    wait_until("the limits are in force", lambda: _of_a_pod(as_reconciler, {"metadata": {"labels": {"app": "b"}}}))
    yield as_reconciler
    applied.api.delete(f"{POD}?gracePeriodSeconds=0")


def _of_a_pod(api: Api, patch: Patch) -> str:
    return _why_not(api, patch, POD, "npuwarden-reconciler-pods")


def test_the_mark_on_a_pod_may_come_and_go(pod: Api) -> None:
    for value in ("Unhealthy-CardUnhealthy", None):
        pod.merge_patch(POD, {"metadata": {"annotations": {POD_STATUS: value}}})
        assert pod.get(POD)["metadata"]["annotations"].get(POD_STATUS) == value


SPEC, POD_NOTES = "may change nothing of a pod", "the annotation huawei.com/pod-status only"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param({"spec": {"activeDeadlineSeconds": 1}}, SPEC, id="deadline"),
        pytest.param({"metadata": {"labels": {"app": "b"}}}, SPEC, id="label"),
        pytest.param({"metadata": {"finalizers": ["example.com/hold"]}}, SPEC, id="finalizer"),
        pytest.param(
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}},
            SPEC,
            id="owner",
        ),
        pytest.param({"metadata": {"annotations": {"example.com/note": "x"}}}, POD_NOTES, id="annotation changed"),
        pytest.param({"metadata": {"annotations": {"example.com/note": None}}}, POD_NOTES, id="annotation off"),
        pytest.param({"metadata": {"annotations": {"example.com/new": "x"}}}, POD_NOTES, id="annotation added"),
    ],
)
def test_everything_else_of_a_pod_is_refused(pod: Api, patch: Patch, why: str) -> None:
    assert why in _of_a_pod(pod, patch)


def test_another_image_in_a_pod_is_refused(pod: Api) -> None:
    change = {"spec": {"containers": [{"name": "main", "image": "example.com/stolen:1"}]}}
    with pytest.raises(ApiError, match="may change nothing of a pod"):
        pod.request("PATCH", POD, change, content_type=STRATEGIC)
    assert pod.get(POD)["spec"]["containers"][0]["image"] == "example.com/main:1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/npuwarden-system/secrets"),
        ("DELETE", f"{PATH}"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("DELETE", "/api/v1/namespaces/default/pods"),
        ("DELETE", "/apis/apps/v1/namespaces/npuwarden-system/deployments/npuwarden-reconciler"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/npuwarden-system/leases/another"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"),
        ("GET", "/api/v1/namespaces/default/configmaps/any"),
    ],
)
def test_a_stolen_token_may_not(node: Api, method: str, path: str) -> None:
    with pytest.raises(ApiError) as refusal:
        node.request(method, path, {} if method in ("POST", "PUT") else None)
    assert refusal.value.status == 403
