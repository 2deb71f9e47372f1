"""Who may drill: to patch a node is not enough, `create` on drills.npuwarden.io of that node is needed too."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.names import DRILL_ANNOTATION, DRILL_REPORT_ANNOTATION
from tests.cluster.api import Api, ApiError
from tests.cluster.plane import ControlPlane
from tests.waiting import wait_until

NODES = ("drillable", "undrillable")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATCHER, DRILLER = "drill-test-patcher", "drill-test-driller"
REQUEST = {"metadata": {"annotations": {DRILL_ANNOTATION: '{"name": "d1"}'}}}
NODES_RULE = {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "create", "patch"]}
DRILLS_RULE = {"apiGroups": ["npuwarden.io"], "resources": ["drills"], "verbs": ["create"], "resourceNames": [NODES[0]]}


def granted(plane: ControlPlane, account: str, rules: list[dict[str, Any]]) -> Api:
    """The API as a service account with these rules."""
    plane.api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": account}})
    plane.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": account}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
    binding = {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]}
    plane.api.post(f"{RBAC}/clusterrolebindings", binding)
    return Api(plane.url, plane.token_for("default", account), plane.tls)


@pytest.fixture
def people(applied: ControlPlane) -> Iterator[tuple[Api, Api]]:
    """One who may patch nodes, and one who may drill the first of them as well; once the policy is in force."""
    for node in NODES:
        applied.api.post("/api/v1/nodes", {"metadata": {"name": node}})
    patcher = granted(applied, PATCHER, [NODES_RULE])
    driller = granted(applied, DRILLER, [NODES_RULE, DRILLS_RULE])
    wait_until("the policy is in force", lambda: refused(patcher, NODES[0]))
    wait_until("the driller may", lambda: not refused(driller, NODES[0]))
    yield patcher, driller
    for account in (PATCHER, DRILLER):
        for path in (
            f"{RBAC}/clusterrolebindings",
            f"{RBAC}/clusterroles",
            "/api/v1/namespaces/default/serviceaccounts",
        ):
            applied.api.delete(f"{path}/{account}")
    for node in NODES:
        applied.api.delete(f"/api/v1/nodes/{node}")


def refused(api: Api, node: str, patch: dict[str, Any] = REQUEST, *, part: str = "") -> bool:
    """By the policy, on trial. Any other trouble is none of its words."""
    try:
        api.merge_patch(f"/api/v1/nodes/{node}{part}?dryRun=All", patch)
    except ApiError as exc:
        return "needs the right to create drills.npuwarden.io" in str(exc)
    return False


def test_to_patch_a_node_is_not_to_drill_it(people: tuple[Api, Api]) -> None:
    patcher, driller = people
    assert refused(patcher, NODES[0], part="/status"), "there is no way round by the status"
    assert refused(driller, NODES[1]), "a role may name the nodes"
    driller.merge_patch(f"/api/v1/nodes/{NODES[0]}", REQUEST)
    assert refused(patcher, NODES[0], {"metadata": {"annotations": {DRILL_ANNOTATION: '{"name": "d2"}'}}})
    beside = {"metadata": {"annotations": {"example.com/note": "a", DRILL_REPORT_ANNOTATION: "{}"}}}
    patcher.merge_patch(f"/api/v1/nodes/{NODES[0]}", beside)
    patcher.merge_patch(f"/api/v1/nodes/{NODES[0]}", {"metadata": {"annotations": {DRILL_ANNOTATION: None}}})
    found = driller.get(f"/api/v1/nodes/{NODES[0]}")["metadata"]["annotations"]
    assert DRILL_ANNOTATION not in found, "whoever may patch the node may end a drill"


def test_a_node_that_joins_with_a_request_is_refused(people: tuple[Api, Api]) -> None:
    patcher, _ = people
    with pytest.raises(ApiError, match=r"drills\.npuwarden\.io"):
        patcher.post("/api/v1/nodes?dryRun=All", {"metadata": {"name": "joining", **REQUEST["metadata"]}})
