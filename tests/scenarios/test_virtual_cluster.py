"""The virtual cluster itself: how its pods end and come back, what its agents say, what its reconciler sees."""

from typing import Any

import pytest

from console.scenario.common import START_WALL_S
from console.scenario.virtual import NoSuchObject, VirtualCluster, fault
from console.scenario.virtual_clock import MONO_AT_START
from console.scenario.virtual_objects import Object
from console.scenario.virtual_pods import Recreate
from reconciler.core.policy import Policy
from shared.model import FaultLevel

SEPARATE = FaultLevel.SEPARATE_NPU
JOB = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "llm", "uid": "job-1", "controller": True}
WATCH_ONLY = Policy(observe_only=True)


def node(name: str, *, npus: int = 2, taints: tuple[Object, ...] = ()) -> Object:
    chips = {"huawei.com/Ascend910": str(npus)}
    status = {"capacity": chips, "allocatable": chips, "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": list(taints)},
        "status": status,
    }


def pod(name: str, on: str | None, *, npus: int = 2, owner: Object | None = JOB, **metadata: Any) -> Object:
    labels = {"fault-scheduling": "force", "version": "0", **metadata.pop("labels", {})}
    metadata = {"name": name, "namespace": "serve", "labels": labels, **metadata}
    if owner:
        metadata["ownerReferences"] = [owner]
    requests = {"huawei.com/Ascend910": str(npus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [{"name": "engine", "resources": {"requests": requests}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def job(name: str = "llm", uid: str = "job-1") -> Object:
    metadata = {"name": name, "namespace": "serve", "uid": uid, "labels": {"fault-scheduling": "force"}}
    return {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": metadata, "spec": {}}


def cluster(*more: Object, policy: Policy = WATCH_ONLY, **options: Any) -> VirtualCluster:
    """Nodes a (in use), x and y (free), one job with one pod on a."""
    objects = [node("a"), node("x"), node("y"), job(), pod("llm-0", "a"), *more]
    return VirtualCluster(objects, policy=policy, **{"recreate": Recreate(3, 10, ("x", "y")), **options})


def found(virtual: VirtualCluster, name: str = "llm-0") -> Object | None:
    return virtual.store.get("pods", "serve", name)


def delete(virtual: VirtualCluster, grace_s: int | None, name: str = "llm-0") -> None:
    """As the API's users do."""
    body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
    assert virtual.store.request("DELETE", f"/api/v1/namespaces/serve/pods/{name}", body=body).ok


@pytest.mark.parametrize(("grace_s", "gone_at"), [(0, 10.0), (1, 11.0), (None, 40.0), (5, 15.0)])
def test_a_deleted_pod_is_gone_after_its_grace(grace_s: int | None, gone_at: float) -> None:
    virtual = cluster(recreate=None)
    virtual.run_until(10)
    delete(virtual, grace_s)
    virtual.run_until(gone_at - 0.01 if gone_at > 10 else 10)
    assert (found(virtual) is not None) == (gone_at > 10)
    virtual.run_until(gone_at)
    assert found(virtual) is None


def test_on_a_stuck_node_only_grace_zero_removes_a_pod() -> None:
    virtual = cluster(recreate=None)
    virtual.stick("a")
    delete(virtual, 1)
    virtual.run_until(1000)
    left = found(virtual)
    assert left is not None
    assert "deletionTimestamp" in left["metadata"]
    delete(virtual, 0)
    assert found(virtual) is None


def test_someone_elses_delete_is_immediate_except_on_a_stuck_node() -> None:
    virtual = cluster(pod("llm-1", "x"), recreate=None)
    virtual.stick("x")
    virtual.delete("Pod/serve/llm-0")
    virtual.delete("Pod/serve/llm-1")
    virtual.run_until(100)
    assert found(virtual) is None
    assert found(virtual, "llm-1") is not None
    assert virtual.deleted == {}


def test_a_pod_comes_back_under_its_name_as_a_new_incarnation() -> None:
    virtual = cluster(recreate=Recreate(3, 10, ("x",)))
    old = found(virtual)
    assert old is not None
    virtual.run_until(10)
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(12.9)
    assert found(virtual) is None
    virtual.run_until(13)
    new = found(virtual)
    assert new is not None
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["labels"] == {"fault-scheduling": "force", "version": "1"}
    assert new["spec"]["nodeName"] == "x"
    assert new["status"]["phase"] == "Pending"
    virtual.run_until(23)
    ready = found(virtual)
    assert ready is not None
    assert ready["status"]["phase"] == "Running"
    assert {"type": "Ready", "status": "True"}.items() <= ready["status"]["conditions"][-1].items()


@pytest.mark.parametrize("owner", [None, {**JOB, "controller": False}], ids=["bare", "owned, not controlled"])
def test_nobody_brings_back_a_pod_without_a_controller(owner: Object | None) -> None:
    virtual = cluster(pod("bare", "x", owner=owner))
    virtual.delete("Pod/serve/bare")
    virtual.run_until(100)
    assert found(virtual, "bare") is None


def test_nobody_brings_back_the_pod_of_a_deleted_owner() -> None:
    virtual = cluster()
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(1)
    virtual.delete("AscendJob/serve/llm")
    virtual.run_until(100)
    assert found(virtual) is None


def test_nothing_comes_back_with_recreate_never() -> None:
    virtual = cluster(recreate=None)
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(1000)
    assert found(virtual) is None


def test_what_a_pod_owned_belongs_to_its_successor() -> None:
    leader = {"apiVersion": "v1", "kind": "Pod", "name": "llm-0", "uid": "leader-1", "controller": True}
    virtual = VirtualCluster(
        [node("a"), node("x", npus=8), job(), pod("llm-0", "a", uid="leader-1"), pod("worker", "a", owner=leader)],
        policy=WATCH_ONLY,
        recreate=Recreate(3, 10, ("x",)),
    )
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(5)
    virtual.delete("Pod/serve/worker")
    virtual.run_until(20)
    new, worker = found(virtual), found(virtual, "worker")
    assert new is not None
    assert worker is not None
    assert worker["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"] != "leader-1"


TAINT = {"key": "anything", "effect": "NoSchedule"}
SOFT = {"key": "anything", "effect": "PreferNoSchedule"}
PLACES = [
    ("the first of the list", [node("p"), node("q")], "p"),
    ("not where a taint forbids it", [node("p", taints=(TAINT,)), node("q")], "q"),
    ("where a taint only discourages it", [node("p", taints=(SOFT,)), node("q")], "p"),
    ("not where no room is", [node("p", npus=1), node("q")], "q"),
    ("not where others hold the NPUs", [node("p"), node("q"), pod("other", "p", owner=None)], "q"),
    ("not on a node that does not exist", [node("q")], "q"),
    ("nowhere", [node("p", taints=(TAINT,)), node("q", taints=(TAINT,))], None),
]


@pytest.mark.parametrize(("others", "place"), [(o, p) for _, o, p in PLACES], ids=[name for name, _, _ in PLACES])
def test_a_successor_is_bound(others: list[Object], place: str | None) -> None:
    virtual = cluster(*others, recreate=Recreate(3, 10, ("p", "q")))
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(5)
    new = found(virtual)
    assert new is not None
    assert new["spec"].get("nodeName") == place
    if place is None:
        (scheduled,) = new["status"]["conditions"]
        assert (scheduled["type"], scheduled["status"], scheduled["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )


def test_a_failed_pod_holds_no_room_and_a_waiting_one_takes_what_becomes_free() -> None:
    virtual = cluster(pod("other", "x", owner=None), recreate=Recreate(3, 10, ("x",)))
    virtual.delete("Pod/serve/llm-0")
    virtual.run_until(50)
    waiting = found(virtual)
    assert waiting is not None
    assert "nodeName" not in waiting["spec"]
    virtual.fail("serve/other", exit_code=3)
    virtual.run_until(51)
    new = found(virtual)
    assert new is not None
    assert new["spec"]["nodeName"] == "x"


def test_reports_are_repeated_every_15_s_and_end_with_silence() -> None:
    virtual = cluster()
    virtual.run_until(44)
    last = virtual.warden.world.heard["a"]
    assert last.at == MONO_AT_START + 30
    assert last.report.seq == 3
    virtual.silence("a")
    virtual.run_until(300)
    assert virtual.warden.world.heard["a"].at == MONO_AT_START + 30
    assert virtual.warden.world.heard["x"].at == MONO_AT_START + 300


def test_a_fault_keeps_its_since_and_its_end_is_an_event() -> None:
    virtual = cluster()
    virtual.run_until(10)
    virtual.report("a", [fault(1, "80E18402", SEPARATE)])
    virtual.run_until(20)
    virtual.report("a", [fault(1, "80E18402", SEPARATE), fault("node", "NW-MONITOR-BLIND", SEPARATE)])
    report = virtual.warden.world.heard["a"].report
    assert [(f.id, f.since - START_WALL_S) for f in report.faults] == [
        ("80E18402@1", 10),
        ("NW-MONITOR-BLIND@node", 20),
    ]
    assert [chip.health for chip in report.chips] == ["ok", "fault"]
    virtual.report("a")
    assert {(e.kind, e.id) for e in virtual.warden.world.heard["a"].report.events} == {
        ("cleared", "80E18402@1"),
        ("cleared", "NW-MONITOR-BLIND@node"),
    }


def test_what_happens_while_redis_is_away_is_heard_when_it_is_back() -> None:
    virtual = cluster()
    virtual.redis(up=False)
    virtual.report("a", [fault(1, "80E18402", SEPARATE)])
    virtual.run_until(100)
    assert not virtual.warden.world.reports_ok
    assert virtual.warden.world.heard["a"].report.faults == ()
    virtual.redis(up=True)
    heard = virtual.warden.world.heard["a"].report
    assert [f.id for f in heard.faults] == ["80E18402@1"]
    assert [e.kind for e in heard.events] == ["raised"]


def test_a_new_leader_knows_what_is_stored_and_nothing_else() -> None:
    virtual = cluster()
    virtual.run_until(10)
    virtual.report("a", [fault(1, "80E18402", SEPARATE)])
    virtual.silence("a")
    virtual.run_until(20)
    before = virtual.warden.world
    virtual.restart_reconciler()
    world = virtual.warden.world
    assert world is not before
    assert world.holder != before.holder
    assert world.leader_since == MONO_AT_START + 20
    assert set(world.nodes) == {"a", "x", "y"}
    assert set(world.pods) == {"serve/llm-0"}
    assert [f.id for f in world.heard["a"].report.faults] == ["80E18402@1"]


def test_the_watch_sees_every_change_at_once() -> None:
    virtual = cluster()
    virtual.set_ready("a", "Unknown")
    virtual.fail("serve/llm-0")
    virtual.merge("AscendJob/serve/llm", {"metadata": {"labels": {"fault-scheduling": "off"}}})
    world = virtual.warden.world
    assert not world.nodes["a"].ready
    assert world.pods["serve/llm-0"].failed
    assert world.owners["job-1"].metadata.labels == {"fault-scheduling": "off"}
    virtual.delete("Node/x")
    assert "x" not in world.nodes


def test_pause_reaches_the_reconciler_and_ends() -> None:
    virtual = cluster()
    virtual.pause("maintenance")
    assert virtual.warden.world.paused == "maintenance"
    virtual.pause(None)
    assert virtual.warden.world.paused is None


def test_the_second_incarnation_of_a_name_is_numbered_and_force_follows_grace() -> None:
    virtual = cluster(policy=Policy(), recreate=Recreate(1, 1, ("x", "y")))
    virtual.report("a", [fault("node", "X", SEPARATE)])
    virtual.run_until(30)
    virtual.report("x", [fault("node", "X", SEPARATE)])
    virtual.run_until(60)
    assert virtual.deleted == {"serve/llm-0": "force", "serve/llm-0#2": "force"}
    assert virtual.tainted == {"a": "NoSchedule", "x": "NoSchedule"}
    assert [r["status"]["phase"] for r in virtual.recoveries] == ["Recovered", "Recovered"]
    assert virtual.warden.unsettled == []


def test_refused_requests_are_counted_and_deletes_that_fail_are_not() -> None:
    virtual = cluster(policy=Policy())
    virtual.refuse("delete", "Pod/serve/llm-0", status=500, times=100)
    virtual.report("a", [fault("node", "X", SEPARATE)])
    virtual.run_until(60)
    assert virtual.tainted == {"a": "NoSchedule"}
    assert virtual.deleted == {}


def test_an_unknown_object_is_named() -> None:
    virtual = cluster()
    with pytest.raises(NoSuchObject, match="serve/nobody"):
        virtual.fail("serve/nobody")
    with pytest.raises(NoSuchObject, match="Kind/namespace/name"):
        virtual.merge("Pod/llm-0", {})
    for act in (virtual.report, virtual.silence, virtual.stick):
        with pytest.raises(NoSuchObject, match="zulu"):
            act("zulu")


def test_an_agent_goes_on_when_its_node_object_is_deleted() -> None:
    virtual = cluster()
    virtual.delete("Node/a")
    virtual.report("a", [fault(1, "80E18402", SEPARATE)])
    assert virtual.warden.world.heard["a"].report.faults


def test_the_same_run_gives_the_same_objects() -> None:
    def run() -> list[Object]:
        virtual = cluster(policy=Policy())
        virtual.report("a", [fault("node", "X", SEPARATE)])
        virtual.run_until(40)
        return [*virtual.store.objects("pods"), *virtual.recoveries]

    assert run() == run()
