"""What a software fault costs, what is given back, and how it ends: single decisions and whole episodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core import fold
from reconciler.core.actions import OpenRecovery, Progress, ReturnCharge
from reconciler.core.policy import Policy, Reschedule
from reconciler.core.retries import account_of, left
from reconciler.core.state import World
from reconciler.core.units import Index, Unit
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from tests.core.build import FORCE, Object, job_with_pods, node, owner_ref, pod, role_set, storm_service
from tests.core.worlds import T0, a_fault, decide, hear, reasons, report, world_of

SPARES = ("node-x", "node-y")
MASTER, WORKER = "ml/j-master-0", "ml/j-worker-0"


def cluster(*, retries: str = "3", **options: Any) -> VirtualCluster:
    """AscendJob `j` on nodes a and b, two spare nodes; it has run for a second."""
    job = job_with_pods("j", ("a", "b"), labels=FORCE | {"fault-retry-times": retries})
    job[0]["spec"]["runPolicy"] = {"backoffLimit": 100}
    virtual = VirtualCluster([*(node(name) for name in ("a", "b", *SPARES)), *job], **options)
    virtual.run_until(1)
    return virtual


def charged(virtual: VirtualCluster) -> list[int]:
    return [recovery["status"].get("charged", 0) for recovery in virtual.recoveries]


def phases(virtual: VirtualCluster) -> list[str]:
    return [recovery["status"]["phase"] for recovery in virtual.recoveries]


def causes(virtual: VirtualCluster) -> list[str]:
    return [recovery["spec"]["cause"]["kind"] for recovery in virtual.recoveries]


# One episode, one charge.


def test_a_failed_pod_costs_one_retry_and_its_siblings_none() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(1.5)
    virtual.fail(WORKER)  # dies of its peer's death while the episode is open
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual)) == (["Recovered"], [1])
    assert virtual.retries("ml/j") == {"ml/j": 2}


def test_a_replacement_that_fails_is_the_next_failure_and_the_next_charge() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(8)
    virtual.fail(MASTER)
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual)) == (["Superseded", "Recovered"], [1, 1])


def test_a_hardware_fault_costs_nothing_whatever_fails_along_with_it() -> None:
    virtual = cluster()
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(1.1)
    virtual.fail(WORKER)
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual), causes(virtual)) == (["Recovered"], [0], ["Hardware"])
    assert virtual.retries("ml/j") == {"ml/j": 3}


def test_an_episode_that_deletes_nothing_costs_nothing() -> None:
    virtual = cluster()
    virtual.pause("look first")
    virtual.fail(MASTER)
    virtual.run_until(5)
    assert virtual.recoveries == []
    virtual.pause(None)
    virtual.refuse("patch", f"Recovery/ml/{_next_name(virtual)}", status=500, times=3)  # the claim does not come about
    virtual.settle()
    virtual.merge("AscendJob/ml/j", {"metadata": {"labels": {"fault-scheduling": "off"}}})
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual)) == (["Aborted"], [0])
    assert (virtual.deleted, virtual.retries("ml/j")) == ({}, {"ml/j": 3})


def _next_name(virtual: VirtualCluster) -> str:
    (action,) = (a for a in virtual.warden.plan().actions if isinstance(a, OpenRecovery))
    return action.name


def test_a_pod_that_failed_with_a_chip_that_healed_at_once_is_charged_as_software() -> None:
    """The hardware episode ends without a restart; what is left is a failed pod, which needs a retry."""
    virtual = cluster()
    virtual.refuse("patch", "Node/a", status=500, times=4)  # the taint comes late
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.fail(MASTER)
    virtual.settle()
    virtual.report("a", [])
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual)) == (["Aborted", "Recovered"], [0, 1])
    assert causes(virtual) == ["Hardware", "Software"]


# A chip that shows its fault after the pod that died of it.


@pytest.mark.parametrize(
    ("where", "item", "after_s", "returned"),
    [
        ("a", fault(3, "80E18402", FaultLevel.SEPARATE_NPU), 24, True),
        ("a", fault(3, "80E18402", FaultLevel.SEPARATE_NPU), 0.05, True),
        ("a", fault(3, "80E18402", FaultLevel.SEPARATE_NPU), 59, True),
        ("a", fault(3, "80E18402", FaultLevel.SEPARATE_NPU), 62, False),
        ("a", fault(3, "A1", FaultLevel.PRE_SEPARATE_NPU), 24, True),
        ("a", fault(3, "A1", FaultLevel.SUB_HEALTH), 24, False),
        ("a", fault(3, "A1", FaultLevel.NOT_HANDLE), 24, False),
        ("a", fault(3, "80E18402", FaultLevel.SEPARATE_NPU, confirmed=False), 24, False),
        ("b", fault(3, "80E18402", FaultLevel.SEPARATE_NPU), 24, True),  # the sibling's chip: the first died of it
        ("a", fault("node", "NW-DISK", FaultLevel.SEPARATE_NPU), 24, True),
        ("node-y", fault("node", "NW-DISK", FaultLevel.SUB_HEALTH), 24, False),
    ],
)
def test_hardware_that_shows_itself_in_time_gives_the_retry_back(
    where: str, item: Any, after_s: float, returned: bool
) -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(1 + after_s)
    virtual.report(where, [item])
    virtual.run_until(120)
    first = virtual.recoveries[0]
    assert first["status"].get("charged", 0) == (0 if returned else 1)
    assert first["spec"]["cause"]["kind"] == (
        ("Node" if item.chip == "node" else "Hardware") if returned else "Software"
    )
    assert virtual.retries("ml/j") == {"ml/j": 3 if returned else 2}
    assert len(virtual.deleted) == 2, "one restart, whatever came after"
    assert ("RetryReturned" in virtual.events) is returned


def test_a_chip_that_none_of_its_pods_held_returns_nothing() -> None:
    virtual = cluster()
    chips = ",".join(f"Ascend910-{chip}" for chip in range(4))
    virtual.merge(f"Pod/{MASTER}", {"metadata": {"annotations": {"huawei.com/AscendReal": chips}}})
    virtual.fail(MASTER)
    virtual.run_until(10)
    virtual.report("a", [fault(7, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(60)
    assert (charged(virtual), causes(virtual)) == ([1], ["Software"])


def test_hardware_that_is_seen_before_the_claim_costs_nothing_from_the_start() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.refuse("patch", f"Recovery/ml/{_next_name(virtual)}", status=500, times=2)
    virtual.settle()
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual), causes(virtual)) == (["Recovered"], [0], ["Hardware"])
    assert list(virtual.recoveries[0]["spec"]["cause"]["nodes"]) == ["a"]
    assert "RetryReturned" not in virtual.events


def test_a_fault_that_hits_a_replacement_was_not_the_cause() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(8)
    virtual.report("node-x", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])  # not Ready yet: it has landed wrong
    virtual.run_until(60)
    assert "ml/j-master-0#2" in virtual.deleted
    assert (len(virtual.recoveries), charged(virtual), causes(virtual)) == (1, [1], ["Software"])


def test_a_replacement_that_returns_to_the_dying_chip_joins_and_moves_on() -> None:
    """The chip shows its fault when the next pod is on it already: one episode, no charge, elsewhere at last."""
    virtual = cluster(recreate=Recreate(nodes=("a", "b", *SPARES)))
    virtual.fail(MASTER)
    virtual.run_until(8)
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(60)
    assert (phases(virtual), charged(virtual), causes(virtual)) == (["Recovered"], [0], ["Hardware"])
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in virtual.store.objects("pods")}
    assert nodes["j-master-0"] != "a"


def test_the_window_is_the_policys() -> None:
    virtual = cluster(policy=Policy(reschedule=Reschedule(software_join_s=5)))
    virtual.fail(MASTER)
    virtual.run_until(10)
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(60)
    assert charged(virtual) == [1]


def test_a_new_leader_still_knows_which_chips_the_deleted_pods_held() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(10)
    virtual.restart_reconciler()
    virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(40)
    assert (charged(virtual), causes(virtual)) == ([0], ["Hardware"])


def test_a_retry_is_returned_once() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.run_until(10)
    for chip in (3, 4):
        virtual.report("a", [fault(chip, "80E18402", FaultLevel.SEPARATE_NPU)])
        virtual.run_until(virtual.clock.t + 5)
    assert charged(virtual) == [0]
    assert virtual.events.count("RetryReturned") == 1


# The end of the retries.


def test_exhausted_is_said_once_and_is_the_end() -> None:
    virtual = cluster(retries="1")
    virtual.fail(MASTER)
    virtual.run_until(60)
    virtual.fail(MASTER)
    virtual.run_until(300)
    virtual.restart_reconciler()
    virtual.run_until(400)
    assert phases(virtual) == ["Recovered", "Exhausted"]
    last = virtual.recoveries[-1]
    assert (last["status"]["reason"], last["spec"].get("targets", [])) == ("retries-exhausted", [])
    assert last["status"]["times"]["finished"]
    assert virtual.events.count("RecoveryExhausted") == 1
    assert "retries-exhausted" in {hold.reason for hold in virtual.why("ml/j")}
    assert virtual.retries("ml/j") == {"ml/j": 0}


def test_a_raised_limit_ends_the_exhaustion() -> None:
    virtual = cluster(retries="1")
    virtual.fail(MASTER)
    virtual.run_until(60)
    virtual.fail(MASTER)
    virtual.run_until(100)
    virtual.merge("AscendJob/ml/j", {"metadata": {"labels": {"fault-retry-times": "2"}}})
    virtual.run_until(160)
    assert phases(virtual) == ["Recovered", "Exhausted", "Recovered"]
    assert virtual.retries("ml/j") == {"ml/j": 0}


def test_hardware_restarts_a_unit_without_retries() -> None:
    virtual = cluster(retries="1")
    virtual.fail(MASTER)
    virtual.run_until(60)
    virtual.report("node-x", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.report("node-y", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(120)
    assert causes(virtual) == ["Software", "Hardware"]
    assert charged(virtual) == [1, 0]


def test_the_operators_own_limit_is_the_end_too() -> None:
    virtual = cluster()
    virtual.merge("AscendJob/ml/j", {"spec": {"runPolicy": {"backoffLimit": 1}}})
    virtual.fail(MASTER)
    virtual.run_until(60)
    virtual.fail(MASTER)
    virtual.run_until(120)
    assert phases(virtual) == ["Recovered", "Exhausted"]
    assert virtual.recoveries[-1]["status"]["reason"] == "backoff-limit"
    assert len(virtual.deleted) == 2


def test_a_job_that_its_operator_ended_is_noticed_and_costs_nothing() -> None:
    virtual = cluster()
    virtual.fail(MASTER)
    virtual.merge("AscendJob/ml/j", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}})
    virtual.run_until(60)
    assert (virtual.recoveries, virtual.deleted) == ([], {})
    assert "owner-terminal" in {hold.reason for hold in virtual.why("ml/j")}


@settings(max_examples=12)
@given(
    limit=st.integers(1, 3),
    steps=st.lists(st.tuples(st.sampled_from(["fail", "fault", "heal", "leader"]), st.integers(1, 40)), max_size=8),
)
def test_retries_never_fall_below_zero_and_no_charge_exceeds_them(limit: int, steps: list[tuple[str, int]]) -> None:
    virtual = cluster(retries=str(limit))
    for what, wait_s in steps:
        match what:
            case "fail" if virtual.store.get("pods", "ml", "j-master-0"):
                virtual.fail(MASTER)
            case "fault":
                virtual.report("a", [fault(3, "80E18402", FaultLevel.SEPARATE_NPU)])
            case "heal":
                virtual.report("a", [])
            case "leader":
                virtual.restart_reconciler()
        virtual.run_until(virtual.clock.t + wait_s)
    assert sum(charged(virtual)) <= limit
    assert virtual.retries("ml/j")["ml/j"] == limit - sum(charged(virtual))
    assert virtual.warden.unsettled == []


# Containers that are restarted in place.


def in_place(exit_code: int, *, policy: str = "Always", status: str = "lastState") -> VirtualCluster:
    wish = Policy(reschedule=Reschedule(last_state_exits=True))
    virtual = cluster(policy=wish)
    containers = [{"name": "main", "restartCount": 1, status: {"terminated": {"exitCode": exit_code}}}]
    virtual.merge(f"Pod/{MASTER}", {"spec": {"restartPolicy": policy}, "status": {"containerStatuses": containers}})
    return virtual


@pytest.mark.parametrize(
    ("exit_code", "policy", "restarts"), [(137, "Always", True), (0, "Always", False), (137, "OnFailure", False)]
)
def test_a_container_restarted_in_place_counts_where_the_policy_says_so(
    exit_code: int, policy: str, restarts: bool
) -> None:
    virtual = in_place(exit_code, policy=policy)
    virtual.run_until(60)
    assert charged(virtual) == ([1] if restarts else [])


def test_by_default_it_does_not_count() -> None:
    virtual = cluster()
    containers = [{"name": "main", "restartCount": 1, "lastState": {"terminated": {"exitCode": 137}}}]
    virtual.merge(f"Pod/{MASTER}", {"spec": {"restartPolicy": "Always"}, "status": {"containerStatuses": containers}})
    virtual.run_until(60)
    assert virtual.recoveries == []


# Controllers that replace a failed pod themselves.


@pytest.mark.parametrize("labels", [{}, {"pod-rescheduling": "on"}])
def test_a_role_set_replaces_failed_pods_itself_so_the_warden_only_tells(labels: dict[str, str]) -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    wishes = FORCE | labels
    failed = pod("s-r-p-0", "a", roles, labels=wishes, phase="Failed", ready=False)
    world = world_of([node("a"), node("b"), service, roles, failed, pod("s-r-p-1", "b", roles, labels=wishes)])
    hear(world, report("a"), report("b"))
    assert not [a for a in decide(world).actions if isinstance(a, OpenRecovery)]
    unit = _unit(world, "ml/s-r-p-0").id
    assert reasons(decide(world), unit) == ["foreign-actor"]


def test_a_failed_pod_that_is_gone_before_anyone_plans_is_told_of_once() -> None:
    service, labels = storm_service("s"), FORCE | {"pod-rescheduling": "on"}
    roles = role_set("s-r", service)
    virtual = VirtualCluster([node("a"), service, roles, pod("s-r-p-0", "a", roles, labels=labels)])
    virtual.run_until(1)
    virtual.fail("ml/s-r-p-0")
    virtual.delete("Pod/ml/s-r-p-0")  # the RoleSet, within milliseconds
    virtual.run_until(300)
    assert virtual.events.count("PodReplacedByItsController") == 1
    assert (virtual.recoveries, virtual.deleted, virtual.warden.world.memory.self_replaced) == ([], {}, {})


def test_a_workload_that_has_not_opted_in_is_not_told_of_its_failures() -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    virtual = VirtualCluster([node("a"), service, roles, pod("s-r-p-0", "a", roles)])
    virtual.run_until(1)
    virtual.fail("ml/s-r-p-0")
    virtual.run_until(60)
    assert virtual.events == []


def test_its_hardware_faults_are_still_the_wardens() -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    world = world_of([node("a"), service, roles, pod("s-r-p-0", "a", roles, labels=FORCE)])
    hear(world, report("a", a_fault()))
    assert [a.spec.cause.kind for a in decide(world).actions if isinstance(a, OpenRecovery)] == ["Hardware"]


# Pods whose names are drawn.


def deployment(*names: str, retries: str = "2", failed: str = "") -> World:
    """Pods of ReplicaSet `web-7d9`, one of which may have Failed."""
    above: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ml", "uid": "uid-web"},
    }
    below: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-7d9", "namespace": "ml", "uid": "uid-web-7d9", "ownerReferences": [owner_ref(above)]},
    }
    pods = []
    for name in names:
        made = pod(name, "a", below, labels=FORCE | {"fault-retry-times": retries}, chips=(0,))
        made["metadata"]["generateName"] = f"{name.rpartition('-')[0]}-"
        if name == failed:
            made["status"] = {"phase": "Failed"}
        pods.append(made)
    world = world_of([node("a"), above, below, *pods])
    hear(world, report("a"))
    return world


def _unit(world: World, key: str) -> Unit:
    unit = unit_of(world.pods[key], Index(world.snapshot()))
    assert isinstance(unit, Unit)
    return unit


def _finished(world: World) -> list[Object]:
    """The recoveries that the world opens now, as they are once they have ended."""
    return [
        {
            "kind": "Recovery",
            "metadata": {"name": action.name, "namespace": "ml", "uid": f"uid-{action.name}"},
            "spec": msgspec.to_builtins(action.spec),
            "status": {"phase": "Recovered", "charged": action.status.charged},
        }
        for action in decide(world).actions
        if isinstance(action, OpenRecovery)
    ]


def test_pods_of_one_template_share_the_retries_whatever_their_names() -> None:
    world = deployment("web-7d9-aaaaa", failed="web-7d9-aaaaa")
    past: list[Object] = []
    for name in ("web-7d9-bbbbb", "web-7d9-ccccc"):
        past += _finished(world)
        world = deployment(name, "web-7d9-zzzzz", failed=name)
        for item in past:
            fold.observe(world, "Recovery", "set", item)
    assert [item["status"]["charged"] for item in past] == [1, 1]
    assert [a.status.phase for a in decide(world).actions if isinstance(a, OpenRecovery)] == ["Exhausted"]
    assert left(world.snapshot(), "ml/web/web-7d9-ccccc") == 0
    assert left(world.snapshot(), "ml/web/web-7d9-zzzzz") == 0


def test_a_new_template_starts_with_all_its_retries() -> None:
    first = _finished(deployment("web-7d9-aaaaa", failed="web-7d9-aaaaa", retries="1"))
    world = deployment("web-9f1-aaaaa", failed="web-9f1-aaaaa", retries="1")
    for item in first:
        fold.observe(world, "Recovery", "set", item)
    assert left(world.snapshot(), "ml/web/web-9f1-aaaaa") == 1


def test_pods_that_keep_their_names_have_retries_of_their_own() -> None:
    above: Object = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "ml", "uid": "uid-db"},
    }
    labels = FORCE | {"fault-retry-times": "1"}
    failed = pod("db-0", "a", above, labels=labels, phase="Failed", ready=False)
    world = world_of([node("a"), above, failed, pod("db-1", "a", above, labels=labels)])
    hear(world, report("a"))
    for item in _finished(world):
        fold.observe(world, "Recovery", "set", item)
    assert (left(world.snapshot(), "ml/db/db-0"), left(world.snapshot(), "ml/db/db-1")) == (0, 1)


def test_a_long_drawn_name_is_known_by_what_the_api_server_keeps_of_its_prefix() -> None:
    base = "x" * 70
    name = base[:58] + "abcde"
    world = deployment(name)
    world.pods[f"ml/{name}"] = msgspec.structs.replace(
        world.pods[f"ml/{name}"],
        metadata=msgspec.structs.replace(world.pods[f"ml/{name}"].metadata, generate_name=base),
    )
    assert account_of(_unit(world, f"ml/{name}")) == ("uid-web", f"ml/web/{base[:58]}*")


def test_a_replacement_made_before_the_recovery_was_opened_is_found() -> None:
    """A ReplicaSet replaces a failed pod at once, the warden opens its recovery a moment later."""
    world = deployment("web-7d9-aaaaa", "web-7d9-bbbbb", failed="web-7d9-aaaaa")
    created = {"web-7d9-bbbbb": "2027-01-15T07:59:55Z"}
    for name, at in created.items():
        held = world.pods[f"ml/{name}"]
        meta = msgspec.structs.replace(held.metadata, creation_timestamp=at)
        world.pods[f"ml/{name}"] = msgspec.structs.replace(held, metadata=meta)
    (raw,) = _finished(world)
    raw["metadata"]["creationTimestamp"] = "2027-01-15T08:00:01Z"
    raw["spec"]["targets"] = [{"pod": "web-7d9-aaaaa", "uid": "uid-web-7d9-aaaaa", "node": "a"}]
    raw["status"] = {"phase": "Recreating", "charged": 1, "holder": "me"}
    fold.observe(world, "Recovery", "set", raw)
    del world.pods["ml/web-7d9-aaaaa"]
    assert [action.status.phase for action in decide(world, T0).actions if isinstance(action, Progress)] == [
        "Recovered"
    ]


def test_the_return_is_decided_from_the_recovery_alone() -> None:
    """No pod of the episode is left to be seen: targets, chips and the time of the failure stand in the Recovery."""
    world = deployment("web-7d9-zzzzz")
    meta = {"name": "r", "namespace": "ml", "uid": "uid-r"}
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}
    spec = {
        "workload": ref,
        "unit": "ml/web/web-7d9-aaaaa",
        "instance": "web-7d9-aaaaa",
        "level": "Pod",
        "method": "force",
        "cause": {"kind": "Software"},
        "targets": [{"pod": "web-7d9-aaaaa", "uid": "uid-gone", "node": "a", "chips": [5]}],
    }
    status = {"phase": "Recovered", "charged": 1, "times": {"detected": "2027-01-15T07:59:50.000Z"}}
    fold.observe(world, "Recovery", "set", {"kind": "Recovery", "metadata": meta, "spec": spec, "status": status})
    hear(world, report("a", a_fault(5), seq=2))
    (action,) = (a for a in decide(world, T0).actions if isinstance(a, ReturnCharge))
    assert (action.status.charged, action.status.phase) == (0, "Recovered")
    assert (action.spec.cause.kind, action.spec.cause.nodes) == ("Hardware", ("a",))
