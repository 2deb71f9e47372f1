"""Units that the infer-operator restarts: marked, followed, never deleted beside it; deleted where it does not run."""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster, fault
from shared.model import FaultLevel
from tests.core.build import FORCE
from tests.core.infer import FAULTY, INSTANCE, MATE, OTHER, POD, SIBLING, cluster, make, marks, rebuild

SEPARATE = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
UNIT = f"ml/my/{INSTANCE}"


def struck(labels: dict[str, str] = FORCE, **more: Any) -> VirtualCluster:
    """Ten seconds in, a chip of the first pod has broken and the warden has done all it does at once."""
    seen = cluster(labels, **more)
    seen.run_until(10)
    seen.report(FAULTY, [SEPARATE])
    seen.run_until(12)
    return seen


def only(seen: VirtualCluster) -> dict[str, Any]:
    (recovery,) = seen.recoveries
    return recovery


def phase(seen: VirtualCluster) -> str:
    return str(only(seen)["status"]["phase"])


def reasons(seen: VirtualCluster) -> set[str]:
    return {hold.reason for hold in seen.why(UNIT)}


@pytest.mark.parametrize(
    ("label", "available", "method", "deleted"),
    [
        ("force", 1, "external-force", None),
        ("grace", 1, "external-grace", None),
        ("external-force", 1, "external-force", None),
        ("external-grace", 2, "external-grace", None),
        ("force", 0, "force", "force"),
        ("external-force", 0, "force", "force"),
        ("external-force", None, "force", "force"),
        ("external-grace", None, "grace", "grace"),
    ],
)
def test_the_operator_restarts_the_instance_where_it_runs_and_the_warden_where_not(
    label: str, available: int | None, method: str, deleted: str | None
) -> None:
    seen = struck({"fault-scheduling": label}, available=available)
    assert only(seen)["spec"]["method"] == method
    assert seen.tainted == {FAULTY: "NoSchedule"}
    if deleted is None:
        assert seen.deleted == {}
        assert marks(seen) == {f"{INSTANCE}-0": "Unhealthy-CardUnhealthy"}
    else:
        assert seen.deleted == {POD: deleted, SIBLING: deleted}
        assert marks(seen) == {}


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_what_the_operator_makes_anew_is_followed_until_it_is_ready(kind: str) -> None:
    seen = struck(kind=kind)
    assert phase(seen) == "Deleting"
    assert reasons(seen) >= {"foreign-actor"}
    rebuild(seen, FORCE, kind=kind)
    seen.run_until(16)
    assert phase(seen) == "Recovered"
    assert {r["pod"]: r["uid"] for r in only(seen)["status"]["replacements"]} == {
        f"{INSTANCE}-0": f"uid-{INSTANCE}-0-1",
        f"{INSTANCE}-1": f"uid-{INSTANCE}-1-1",
    }
    assert seen.deleted == {}


def test_the_workload_is_gone_for_a_while_and_that_ends_no_recovery() -> None:
    seen = struck()
    seen.delete(f"StatefulSet/ml/{INSTANCE}")
    seen.run_until(15)
    assert phase(seen) == "Deleting", "its pods are still there"
    seen.delete(f"Pod/{POD}")
    seen.delete(f"Pod/{SIBLING}")
    seen.run_until(30)
    assert phase(seen) == "Recreating"
    make(seen, FORCE)
    seen.run_until(32)
    assert phase(seen) == "Recovered"


def test_a_service_that_is_deleted_meanwhile_ends_it() -> None:
    seen = struck()
    seen.delete("InferServiceSet/ml/my")
    seen.run_until(15)
    assert phase(seen) == "Superseded"
    assert seen.deleted == {}


@pytest.mark.parametrize(
    ("level", "confirmed", "labels", "mark"),
    [
        (FaultLevel.SUB_HEALTH, True, FORCE | {"subHealthyStrategy": "forceExit"}, "Unhealthy-SubHealthFault"),
        (FaultLevel.SUB_HEALTH, True, FORCE, None),
        (FaultLevel.SEPARATE_NPU, False, FORCE, None),
        (FaultLevel.SEPARATE_NPU, True, FORCE | {"fault-scheduling": "off"}, None),
    ],
)
def test_the_mark_says_what_has_happened(
    level: FaultLevel, confirmed: bool, labels: dict[str, str], mark: str | None
) -> None:
    seen = cluster(labels)
    seen.run_until(10)
    seen.report(FAULTY, [fault(3, "80E18402", level, confirmed=confirmed)])
    seen.run_until(12)
    assert marks(seen) == ({f"{INSTANCE}-0": mark} if mark else {})


def test_a_failed_pod_is_marked_and_charged() -> None:
    seen = cluster(FORCE)
    seen.run_until(10)
    seen.fail(POD)
    seen.run_until(12)
    assert marks(seen) == {f"{INSTANCE}-0": "Unhealthy-pod-failed"}
    assert only(seen)["status"]["charged"] == 1


def test_a_dead_node_is_named_and_the_pods_that_hang_there_are_forced() -> None:
    seen = cluster(FORCE)
    seen.stick(FAULTY)
    seen.run_until(10)
    seen.silence(FAULTY)
    seen.set_ready(FAULTY, "Unknown")
    seen.run_until(60)
    assert marks(seen) == {f"{INSTANCE}-0": "Unhealthy-NodeUnhealthy"}
    seen.delete(f"StatefulSet/ml/{INSTANCE}")
    for name in (POD, SIBLING):
        seen.delete(f"Pod/{name}")
    seen.run_until(70)
    assert seen.deleted == {POD: "force"}, "only what hangs is finished"
    make(seen, FORCE)
    seen.run_until(75)
    assert phase(seen) == "Recovered"


def test_what_the_operator_does_not_take_up_is_said_and_left() -> None:
    seen = struck()
    seen.run_until(60)
    assert "conditions" not in only(seen)["status"]
    seen.run_until(200)
    assert seen.deleted == {}
    assert [c["type"] for c in only(seen)["status"]["conditions"]] == ["Overdue"]
    said = [hold.message for hold in seen.why(UNIT) if hold.reason == "foreign-actor"]
    assert any("has not taken it up for" in text and "mindx-dl/infer-operator" in text for text in said)


@pytest.mark.parametrize(("label", "overdue"), [("force", True), ("grace", False)])
def test_pods_that_the_operator_ends_with_grace_have_their_time(label: str, overdue: bool) -> None:
    seen = struck({"fault-scheduling": label})
    for name in (FAULTY, "b"):
        seen.stick(name)
    seen.run_until(20)
    for pod in (POD, SIBLING):
        seen.delete(f"Pod/{pod}")
    seen.run_until(200)
    assert phase(seen) == "Deleting"
    assert bool(only(seen)["status"].get("conditions")) is overdue


def test_an_operator_that_goes_away_after_the_mark_is_replaced_and_never_joined() -> None:
    seen = struck()
    seen.merge("Deployment/mindx-dl/infer-operator", {"status": {"availableReplicas": 0}})
    seen.run_until(60)
    assert seen.deleted == {}, "it may only be restarting"
    seen.run_until(75)
    assert seen.deleted == {POD: "force", SIBLING: "force"}
    assert only(seen)["spec"]["method"] == "force"
    seen.run_until(120)
    assert phase(seen) == "Recovered"


def test_the_mark_is_off_before_the_warden_deletes() -> None:
    seen = struck()
    seen.merge("Deployment/mindx-dl/infer-operator", {"status": {"availableReplicas": 0}})
    seen.refuse("delete", f"Pod/{POD}", status=500, times=100)
    seen.run_until(80)
    assert SIBLING in seen.deleted
    assert marks(seen) == {}


def test_a_fault_that_heals_before_the_operator_has_begun_takes_the_mark_off() -> None:
    seen = struck()
    seen.report(FAULTY)
    seen.run_until(14)
    assert marks(seen) == {}
    assert (phase(seen), only(seen)["status"]["reason"]) == ("Aborted", "healed")


@pytest.mark.parametrize("leader", ["the same", "a new one"])
def test_a_node_that_cannot_be_seen_any_more_keeps_its_mark(leader: str) -> None:
    seen = struck()
    if leader == "the same":
        seen.silence(FAULTY)
    else:  # it has never heard of the fault, and cannot read the reports
        seen.redis(up=False)
        seen.restart_reconciler()
    seen.run_until(120)
    assert marks(seen) == {f"{INSTANCE}-0": "Unhealthy-CardUnhealthy"}
    assert phase(seen) == "Deleting"


def test_a_new_leader_goes_on_from_the_mark() -> None:
    seen = struck()
    seen.restart_reconciler()
    seen.run_until(14)
    rebuild(seen, FORCE)
    seen.run_until(90)
    assert phase(seen) == "Recovered"
    assert (seen.deleted, marks(seen)) == ({}, {})


@pytest.mark.parametrize(("before", "after", "method"), [(0, 1, "external-force"), (1, 0, "force")])
def test_the_operator_that_counts_is_the_one_at_the_claim(before: int, after: int, method: str) -> None:
    seen = cluster(FORCE, available=before)
    seen.run_until(10)
    seen.refuse("patch", f"Node/{FAULTY}", status=500, times=2)
    seen.report(FAULTY, [SEPARATE])
    seen.run_until(10.1)
    assert phase(seen) == "Isolating"
    seen.merge("Deployment/mindx-dl/infer-operator", {"status": {"availableReplicas": after}})
    seen.run_until(20)
    assert only(seen)["spec"]["method"] == method
    assert bool(marks(seen)) is (after == 1)
    assert bool(seen.deleted) is (after == 0)


def test_an_instance_that_somebody_is_deleting_is_not_marked_on_top() -> None:
    seen = cluster(FORCE)
    for name in (FAULTY, MATE):
        seen.stick(name)
    seen.run_until(10)
    for name in (POD, SIBLING):
        seen.delete(f"Pod/{name}")
    seen.report(FAULTY, [SEPARATE])
    seen.run_until(15)
    assert (marks(seen), seen.deleted) == ({}, {})
    assert "foreign-actor" in reasons(seen)


def test_a_replacement_on_the_faulty_node_is_handed_over_again() -> None:
    seen = struck()
    rebuild(seen, FORCE, on=(FAULTY, "node-x"))
    seen.merge(f"Pod/{POD}", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    seen.merge(f"Pod/{SIBLING}", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    seen.run_until(16)
    assert seen.deleted == {}
    assert marks(seen) == {f"{INSTANCE}-0": "Unhealthy-CardUnhealthy"}
    assert only(seen)["status"]["attempts"] == 1


def test_the_other_instance_of_the_role_is_never_touched() -> None:
    seen = struck(available=None)
    seen.run_until(60)
    assert phase(seen) == "Recovered"
    assert not any(OTHER in name for name in seen.deleted)


def test_paused_means_no_mark_either() -> None:
    seen = cluster(FORCE)
    seen.run_until(10)
    seen.refuse("patch", f"Pod/{POD}", status=500, times=1)
    seen.report(FAULTY, [SEPARATE])
    seen.run_until(10.3)
    seen.pause("night")
    seen.run_until(30)
    assert marks(seen) == {}
    assert "paused" in reasons(seen)


@pytest.mark.parametrize("tenths", range(0, 70, 4))
def test_a_leader_may_be_replaced_at_any_moment(tenths: int) -> None:
    """The operator rebuilds at 14; whenever the new leader comes, nothing is deleted and one recovery ends well."""
    seen = cluster(FORCE)
    seen.run_until(10)
    seen.report(FAULTY, [SEPARATE])
    moment = 10 + tenths / 10
    for t in sorted({moment, 14.0, 100.0}):
        seen.run_until(t)
        if t == moment:
            seen.restart_reconciler()
        if t == 14.0:
            rebuild(seen, FORCE)
    assert seen.deleted == {}
    assert phase(seen) == "Recovered"
