"""The account of the nightly drill changes two annotations of nodes, whatever RBAC lets it write."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.names import DRILL_ANNOTATION, DRILL_REPORT_ANNOTATION, ISOLATE_ANNOTATION
from tests.cluster.api import Api, ApiError
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, kubectl
from tests.waiting import wait_until

NODE = "drilled"
PATH = f"/api/v1/nodes/{NODE}"


@pytest.fixture
def account(applied: ControlPlane) -> Iterator[Api]:
    """Its token, on a cluster with a node of its own, once the limits are in force."""
    files = [word for name in ("cronjob", "rights") for word in ("-f", f"{DEPLOY}/components/drill/{name}.yaml")]
    kubectl(applied, "apply", *files)
    applied.api.post("/api/v1/nodes", {"metadata": {"name": NODE, "annotations": {"example.com/note": "mine"}}})
    api = Api(applied.url, applied.token_for("npuwarden-system", "npuwarden-drill"), applied.tls)
    wait_until("the limits are in force", lambda: refused(api, {"metadata": {"labels": {"zone": "b"}}}))
    yield api
    applied.api.delete(PATH)
    kubectl(applied, "delete", *files)


def refused(api: Api, patch: dict[str, Any]) -> bool:
    """By the policy, on trial."""
    try:
        api.merge_patch(f"{PATH}?dryRun=All", patch)
    except ApiError as exc:
        return "npuwarden-drill-nodes" in str(exc)
    return False


def test_it_asks_for_drills_and_does_nothing_else(account: Api) -> None:
    wish = {DRILL_ANNOTATION: "{}", DRILL_REPORT_ANNOTATION: "{}"}
    account.merge_patch(PATH, {"metadata": {"annotations": wish}})
    account.merge_patch(PATH, {"metadata": {"annotations": {DRILL_ANNOTATION: None}}})
    assert account.get(PATH)["metadata"]["annotations"].keys() >= {DRILL_REPORT_ANNOTATION, "example.com/note"}
    for patch in (
        {"metadata": {"annotations": {ISOLATE_ANNOTATION: "fan"}}},
        {"metadata": {"annotations": {"example.com/note": None}}},
        {"metadata": {"finalizers": ["example.com/mine"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    ):
        assert refused(account, patch), patch
