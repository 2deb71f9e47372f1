"""The mark's preconditions and read-backs, against an object store that changes under its hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from console.lab.cluster.store import Store
from reconciler.core.actions import HandOver, Mark
from reconciler.core.calls import Call, Outcome, Reply
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Target, WorkloadRef
from reconciler.core.steps import steps_for
from shared.names import TAINT_KEY
from tests.core.build import FORCE, node
from tests.core.infer import FAULTY, INSTANCE, MARK, NODES, operator, service
from tests.core.worlds import T0

POD = f"/api/v1/namespaces/ml/pods/{INSTANCE}-0"
OPERATOR = "/apis/apps/v1/namespaces/mindx-dl/deployments/infer-operator"
TOP = "/apis/mindcluster.huawei.com/v1/namespaces/ml/inferservicesets/my"
NODE = f"/api/v1/nodes/{FAULTY}"
VALUE = "Unhealthy-CardUnhealthy"
UID = f"uid-{INSTANCE}-0-0"


class Lab:
    """The service, its tainted node and a claimed recovery; `between` runs before a call of that method is sent."""

    def __init__(self) -> None:
        self.store = Store(lambda: T0.wall)
        for obj in [*(node(name) for name in NODES), *service(FORCE), operator()]:
            self.store.load(obj)
        self.change(NODE, {"spec": {"taints": [{"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}]}})
        top = WorkloadRef("mindcluster.huawei.com/v1", "InferServiceSet", "my", "uid-my")
        spec = RecoverySpec(
            top, f"ml/my/{INSTANCE}", "Instance", "external-force", Cause("Hardware"), targets=(Target("x", UID),)
        )
        status = RecoveryStatus(phase="Deleting", holder="me")
        body = {
            "apiVersion": "npuwarden.io/v1alpha1",
            "kind": "Recovery",
            "metadata": {"name": "r", "namespace": "ml"},
            "spec": msgspec.to_builtins(spec),
            "status": msgspec.to_builtins(status),
        }
        self.recovery = msgspec.convert(self.store.load(body), Recovery)
        self.top = top
        self.calls: list[Call] = []
        self.between: dict[str, Callable[[], Any]] = {}

    def get(self, path: str) -> dict[str, Any]:
        return self.store.request("GET", path).body

    def change(self, path: str, patch: dict[str, Any], subresource: str = "") -> None:
        kind = "application/merge-patch+json"
        reply = self.store.request("PATCH", path + subresource, body=patch, content_type=kind)
        assert reply.status == 200, reply

    def replace(self) -> None:
        """The pod goes, and another one comes under its name."""
        assert self.store.request("DELETE", POD, body={"gracePeriodSeconds": 0}).status == 200
        new = next(obj for obj in service(FORCE) if obj["metadata"]["name"] == f"{INSTANCE}-0")
        new["metadata"]["uid"] = "uid-new"
        self.store.load(new)

    def run(self, value: str | None = VALUE, holder: str = "me") -> Outcome:
        action = HandOver(self.recovery, (Mark(f"{INSTANCE}-0", UID, value),), (FAULTY,), (self.top,))
        step = steps_for(action, holder, T0)
        try:
            call = next(step)
            while True:
                self.calls.append(call)
                if change := self.between.pop(call.method, None):
                    change()
                reply = self.store.request(call.method, call.path, body=call.body, content_type=call.content_type)
                call = step.send(Reply(reply.status, reply.body))
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome

    @property
    def mark(self) -> str | None:
        found: str | None = (self.get(POD)["metadata"].get("annotations") or {}).get(MARK)
        return found

    @property
    def writes(self) -> list[str]:
        return [call.path for call in self.calls if call.method != "GET"]


def test_a_mark_is_set_and_taken_off_again() -> None:
    lab = Lab()
    assert lab.run().done
    assert lab.mark == VALUE
    others = {key for key in lab.get(POD)["metadata"]["annotations"] if key != MARK}
    assert others == {"huawei.com/AscendReal"}
    assert lab.run(None).done
    assert lab.mark is None
    assert len(lab.writes) == 2


def test_a_pod_without_annotations_can_be_marked_too() -> None:
    lab = Lab()
    lab.change(POD, {"metadata": {"annotations": None}})
    assert lab.run().done
    assert lab.mark == VALUE


def test_a_mark_that_stands_is_not_written_again() -> None:
    lab = Lab()
    assert lab.run().done
    outcome = lab.run()
    assert (outcome.done, len(lab.writes)) == (True, 1)


BROKEN: dict[str, tuple[Callable[[Lab], object], str]] = {
    "another holder": (lambda lab: lab.change(lab.calls[0].path, {"status": {"holder": "you"}}), "claimed-elsewhere"),
    "the owner is gone": (lambda lab: lab.store.request("DELETE", TOP), "owner-deleted"),
    "the taint is gone": (lambda lab: lab.change(NODE, {"spec": {"taints": []}}), "no-taint"),
    "the operator is gone": (lambda lab: lab.store.request("DELETE", OPERATOR), "operator-gone"),
    "the operator is down": (
        lambda lab: lab.change(OPERATOR, {"status": {"availableReplicas": 0}}, "/status"),
        "operator-gone",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_nothing_is_marked_when_what_it_rests_on_has_changed(what: str) -> None:
    change, reason = BROKEN[what]
    lab = Lab()
    lab.between["GET"] = lambda: change(lab)
    outcome = lab.run()
    assert (outcome.done, outcome.reason) == (False, reason)
    assert (lab.mark, lab.writes) == (None, [])


def test_the_mark_comes_off_although_the_operator_is_down() -> None:
    lab = Lab()
    assert lab.run().done
    lab.change(OPERATOR, {"status": {"availableReplicas": 0}}, "/status")
    assert lab.run(None).done
    assert lab.mark is None


def test_a_pod_replaced_before_the_look_is_not_marked() -> None:
    lab = Lab()
    lab.replace()
    outcome = lab.run()
    assert outcome.done
    assert outcome.gone == (("Pod", f"ml/{INSTANCE}-0", UID),)
    assert (lab.mark, lab.writes) == (None, [])


@pytest.mark.parametrize("change", ["replaced", "written"])
def test_a_pod_changed_between_look_and_mark_is_looked_at_again(change: str) -> None:
    lab = Lab()
    lab.between["PATCH"] = (
        lab.replace if change == "replaced" else lambda: lab.change(POD, {"metadata": {"labels": {"x": "y"}}})
    )
    outcome = lab.run()
    assert (outcome.done, outcome.reason, lab.mark) == (False, "conflict", None)
    assert lab.run().done
    assert lab.mark == (None if change == "replaced" else VALUE)


def test_a_pod_on_its_way_out_is_left_alone() -> None:
    lab = Lab()
    assert lab.store.request("DELETE", POD, body={}).status == 200
    assert lab.run().done
    assert (lab.mark, lab.writes) == (None, [])


def test_a_pod_that_is_gone_is_no_failure() -> None:
    lab = Lab()
    assert lab.store.request("DELETE", POD, body={"gracePeriodSeconds": 0}).status == 200
    assert lab.run().done
