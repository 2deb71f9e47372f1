"""The API server refuses what an episode needs: nothing is deleted, and it goes on when the refusal ends."""

import copy
from typing import Any

import yaml

from tests.integration.installation import ACCOUNT, ROOT
from tests.integration.rig import DECODE, HBM, PREFILL, Rig, homes, our_taint, terminating, uids
from tests.waiting import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rights() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()))


def without_taints(role: dict[str, Any]) -> dict[str, Any]:
    """The same role, but nodes may only be read."""
    less = copy.deepcopy(role)
    for rule in less["rules"]:
        if rule["resources"] == ["nodes"]:
            rule["verbs"].remove("patch")
    return less


def test_without_its_taint_no_pod_is_deleted(rig: Rig) -> None:
    role = next(obj for obj in rights() if obj["kind"] == "ClusterRole")
    path = f"{RBAC}/clusterroles/{role['metadata']['name']}"
    reconciler = rig.reconciler()
    old, decode = rig.mindie_pair()
    broken = old[f"{PREFILL}-master-0"]["spec"]["nodeName"]
    rig.agent(broken).subscribed()
    reconciler.leads()
    rig.api.merge_patch(path, {"rules": without_taints(role)["rules"]})
    try:
        wait_until("the right is gone", lambda: not may_taint(rig))
        rig.host(broken).occur(3, HBM)
        reconciler.wait_for("forbidden", 20)
        rig.journal.wait("the recovery", "Recovery", "", lambda seen: seen["status"]["phase"] == "Isolating")
        wait_until(
            "the refusal is counted twice",
            lambda: reconciler.metric("npuwarden_reconciler_actions_total", kind="Isolate", outcome="forbidden") >= 2,
        )
        assert rig.taint(broken) is None
        assert [one["status"]["phase"] for one in rig.recoveries()] == ["Isolating"]
        assert uids(rig.running(PREFILL, 2)) == uids(old)
        assert not [entry for entry in rig.journal.of("Pod") if terminating(entry.object)]
    finally:
        rig.api.merge_patch(path, {"rules": role["rules"]})

    rig.recovered()
    assert our_taint(rig.node(broken))
    assert broken not in homes(rig.running(PREFILL, 2))
    assert uids(rig.running(DECODE, 2)) == uids(decode)


def may_taint(rig: Rig) -> bool:
    """What the API server says of the reconciler's account."""
    attributes = {"verb": "patch", "resource": "nodes"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }
    allowed: bool = rig.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
    return allowed
