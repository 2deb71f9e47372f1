"""Each step's preconditions and read-backs, against an object store that changes under its hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from console.lab.cluster.store import Store
from reconciler.core.actions import Claim, DeletePods, Isolate, OpenRecovery, Progress, Release, SetCondition, Victim
from reconciler.core.calls import Call, Outcome, Reply
from reconciler.core.objects import Node
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Target, WorkloadRef
from reconciler.core.state import Record
from reconciler.core.steps import steps_for
from reconciler.core.taints import want
from shared.names import ISOLATION_ANNOTATION, OPT_OUT_LABEL, TAINT_KEY
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0

FOREIGN = {"key": "example.com/maintenance", "effect": "NoSchedule"}
POD = "/api/v1/namespaces/ml/pods/j-master-0"
RECOVERY = "/apis/npuwarden.io/v1alpha1/namespaces/ml/recoveries/r"
JOB = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "j", "uid-j")


class Lab:
    """A store with a job on node a; `between` runs before the call of that number is carried out."""

    def __init__(self) -> None:
        self.store = Store(lambda: T0.wall)
        for obj in [node("a"), node("b"), *job_with_pods("j", ("a", "b"))]:
            self.store.load(obj)
        self.calls: list[Call] = []
        self.between: dict[int, Callable[[], Any]] = {}

    def get(self, path: str) -> dict[str, Any]:
        reply = self.store.request("GET", path)
        assert reply.status == 200, reply
        return reply.body

    def node(self) -> Node:
        return msgspec.convert(self.get("/api/v1/nodes/a"), Node)

    def taint(self, *taints: dict[str, str]) -> None:
        reply = self.store.request(
            "PATCH",
            "/api/v1/nodes/a",
            body={"spec": {"taints": list(taints)}},
            content_type="application/merge-patch+json",
        )
        assert reply.status == 200

    def run(self, action: Any, holder: str = "me") -> Outcome:
        step = steps_for(action, holder, T0)
        try:
            call = next(step)
            while True:
                if change := self.between.pop(len(self.calls), None):
                    change()
                self.calls.append(call)
                reply = self.store.request(call.method, call.path, body=call.body, content_type=call.content_type)
                call = step.send(Reply(reply.status, reply.body))
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    def recovery(self, **status: Any) -> Recovery:
        pods = (Target("j-master-0", "uid-j-master-0", "a"),)
        spec = RecoverySpec(
            JOB, "ml/j", "Job", "force", Cause("Hardware", ("x",), ("a",)), controller=JOB, targets=pods
        )
        action = OpenRecovery("ml", "r", spec, RecoveryStatus(**({"phase": "Deleting", "holder": "me"} | status)))
        assert self.run(action).done
        self.calls.clear()
        return msgspec.convert(self.get(RECOVERY), Recovery)

    def delete(self, **status: Any) -> Outcome:
        victim = Victim("ml", "j-master-0", "uid-j-master-0", 0)
        return self.run(DeletePods(self.recovery(**status), (victim,), ("a",), (JOB,)))

    def replace_pod(self) -> None:
        """Someone deletes the pod, and its controller makes the next one under the same name."""
        assert self.store.request("DELETE", POD, body={"gracePeriodSeconds": 0}).status == 200
        new = job_with_pods("j", ("b", "b"))[1]
        new["metadata"]["uid"] = "uid-new"
        self.store.load(new)


ISOLATE_RECORD = Record("s", "2026-01-01T00:00:00Z", reasons=("SeparateNPU 80E18402@3",))


def isolate(lab: Lab) -> Isolate:
    return Isolate(lab.node(), want("NoSchedule", "SeparateNPU"), ISOLATE_RECORD)


def taints(lab: Lab) -> list[tuple[str, str, str]]:
    return [(t["key"], t.get("value", ""), t["effect"]) for t in lab.get("/api/v1/nodes/a")["spec"].get("taints") or ()]


OURS = (TAINT_KEY, "SeparateNPU", "NoSchedule")
THEIRS = ("example.com/maintenance", "", "NoSchedule")


def test_isolate_writes_taint_and_record_and_reads_them_back() -> None:
    lab = Lab()
    outcome = lab.run(isolate(lab))
    assert outcome.done
    assert taints(lab) == [OURS]
    assert "80E18402@3" in lab.get("/api/v1/nodes/a")["metadata"]["annotations"][ISOLATION_ANNOTATION]
    assert [call.method for call in lab.calls] == ["PATCH", "GET", "POST"]
    assert outcome.seen[-1]["spec"]["taints"]


def test_isolate_keeps_foreign_taints_even_one_that_comes_in_between() -> None:
    lab = Lab()
    action = isolate(lab)
    lab.between[0] = lambda: lab.taint(FOREIGN)
    assert lab.run(action).done
    assert taints(lab) == [THEIRS, OURS]


def test_isolate_is_not_done_when_the_taint_cannot_be_read_back() -> None:
    lab = Lab()
    lab.between[1] = lambda: lab.taint(FOREIGN)
    outcome = lab.run(isolate(lab))
    assert (outcome.done, outcome.reason) == (False, "not-read-back")


def test_isolate_leaves_a_node_alone_whose_label_has_come_in_between() -> None:
    lab = Lab()
    action = isolate(lab)
    labels = {"metadata": {"labels": {OPT_OUT_LABEL: "true"}}}
    lab.between[0] = lambda: lab.store.request(
        "PATCH", "/api/v1/nodes/a", body=labels, content_type="application/merge-patch+json"
    )
    outcome = lab.run(action)
    assert (outcome.done, outcome.reason) == (False, "opt-out")
    assert outcome.seen[-1]["metadata"]["labels"][OPT_OUT_LABEL] == "true"
    assert taints(lab) == []


def test_isolate_leaves_another_machine_of_the_same_name_alone() -> None:
    lab = Lab()
    action = isolate(lab)

    def rebuild() -> None:
        lab.store.request("DELETE", "/api/v1/nodes/a")
        other = node("a")
        other["metadata"]["uid"] = "uid-other"
        lab.store.load(other)

    lab.between[0] = rebuild
    assert not lab.run(action).done
    assert taints(lab) == []


def test_release_takes_our_taint_and_record_alone() -> None:
    lab = Lab()
    lab.taint(FOREIGN)
    lab.run(isolate(lab))
    assert lab.run(Release(lab.node(), "healed")).done
    assert taints(lab) == [THEIRS]
    assert ISOLATION_ANNOTATION not in lab.get("/api/v1/nodes/a")["metadata"].get("annotations", {})


def test_the_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    lab = Lab()
    lab.run(SetCondition(lab.node(), "False", "SeparateNPU", "one"))
    first = lab.node().condition("npuwarden.io/NPUHealthy")
    lab.run(SetCondition(lab.node(), "False", "SeparateNPU", "two"))
    second = lab.node().condition("npuwarden.io/NPUHealthy")
    assert first is not None
    assert second is not None
    assert (second.message, second.last_transition_time) == ("two", first.last_transition_time)
    assert lab.node().ready


def test_opening_the_same_episode_twice_finds_the_first() -> None:
    lab = Lab()
    first = lab.recovery()
    again = OpenRecovery("ml", "r", first.spec, RecoveryStatus(phase="Isolating"))
    outcome = lab.run(again)
    assert outcome.done
    assert outcome.seen[0]["metadata"]["uid"] == first.metadata.uid
    assert lab.get(RECOVERY)["status"]["phase"] == "Deleting"


@pytest.mark.parametrize("write", ["claim", "progress"])
def test_only_one_of_two_leaders_writes_a_recovery(write: str) -> None:
    lab = Lab()
    recovery = lab.recovery()
    mine, theirs = RecoveryStatus("Deleting", holder="me"), RecoveryStatus("Deleting", holder="they")
    if write == "claim":
        assert lab.run(Claim(recovery, recovery.spec, theirs)).done
        outcome = lab.run(Claim(recovery, recovery.spec, mine))
    else:
        assert lab.run(Progress(recovery, theirs)).done
        outcome = lab.run(Progress(recovery, mine))
    assert (outcome.done, outcome.reason) == (False, "conflict")
    assert outcome.seen[-1]["status"]["holder"] == "they"


def test_a_pod_is_deleted_when_everything_still_holds() -> None:
    lab = Lab()
    lab.run(isolate(lab))
    outcome = lab.delete()
    assert outcome.done
    assert outcome.gone == (("Pod", "ml/j-master-0", "uid-j-master-0"),)
    assert lab.store.request("GET", POD).status == 404
    (delete,) = (call for call in lab.calls if call.method == "DELETE")
    assert delete.body["preconditions"] == {"uid": "uid-j-master-0"}


def test_nothing_is_deleted_without_the_taint() -> None:
    lab = Lab()
    outcome = lab.delete()
    assert (outcome.done, outcome.reason) == (False, "no-taint")
    assert lab.get(POD)


@pytest.mark.parametrize(
    "status", [{"holder": "they"}, {"phase": "Aborted"}, {"phase": "Recovered"}], ids=lambda s: str(s)
)
def test_nothing_is_deleted_for_an_episode_that_is_not_ours_any_more(status: dict[str, str]) -> None:
    lab = Lab()
    lab.run(isolate(lab))
    outcome = lab.delete(**status)
    assert (outcome.done, outcome.reason) == (False, "claimed-elsewhere")
    assert lab.get(POD)


def test_nothing_is_deleted_when_nobody_would_bring_it_back() -> None:
    lab = Lab()
    lab.run(isolate(lab))
    lab.store.request("DELETE", "/apis/mindxdl.gitee.com/v1/namespaces/ml/ascendjobs/j")
    outcome = lab.delete()
    assert (outcome.done, outcome.reason) == (False, "owner-deleted")
    assert lab.get(POD)


@pytest.mark.parametrize("before", ["GET", "DELETE"])
def test_a_pod_that_came_back_between_decision_and_delete_survives(before: str) -> None:
    lab = Lab()
    lab.run(isolate(lab))
    lab.calls.clear()
    action = DeletePods(lab.recovery(), (Victim("ml", "j-master-0", "uid-j-master-0", 0),), ("a",), (JOB,))
    # The step's own calls: GET recovery, job, node, then (3) GET pod, (4) DELETE pod.
    lab.between = {3 if before == "GET" else 4: lab.replace_pod}
    outcome = lab.run(action)
    assert outcome.done
    assert outcome.gone == (("Pod", "ml/j-master-0", "uid-j-master-0"),)
    assert lab.get(POD)["metadata"]["uid"] == "uid-new"


def test_a_node_that_is_gone_needs_no_taint() -> None:
    lab = Lab()
    lab.store.request("DELETE", "/api/v1/nodes/a")
    assert lab.delete().done


def test_a_refused_delete_is_not_done_and_the_others_go_on() -> None:
    lab = Lab()
    lab.run(isolate(lab))
    lab.store.refuse("delete", "Pod/ml/j-master-0", 429, 1)
    victims = tuple(Victim("ml", f"j-{name}-0", f"uid-j-{name}-0", 0) for name in ("master", "worker"))
    outcome = lab.run(DeletePods(lab.recovery(), victims, ("a",), (JOB,)))
    assert not outcome.done
    assert outcome.gone == (("Pod", "ml/j-worker-0", "uid-j-worker-0"),)
    assert lab.get(POD)
