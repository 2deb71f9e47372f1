"""What people ask for is told with who and why, as far as the cluster knows."""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster
from reconciler.core.wishes import ISOLATE, OPT_OUT, PAUSE, Wish, wish_event, wishes_of, writer_of
from shared.names import CONTROL_CONFIGMAP, ISOLATE_ANNOTATION, OPT_OUT_LABEL, RELEASE_ANNOTATION
from tests.core.build import node
from tests.core.worlds import T0


def entry(manager: str, time: str, *path: str, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in reversed(path):
        fields = {f"f:{name}": fields}
    return {"manager": manager, "operation": "Update", "time": f"2026-01-01T{time}Z", "fieldsV1": fields, **more}


LABEL = ("metadata", "labels", OPT_OUT_LABEL)
KUBELET = entry("kubelet", "00:00:01", "metadata", "labels", "zone")


@pytest.mark.parametrize(
    ("entries", "who"),
    [
        pytest.param([KUBELET, entry("kubectl-label", "00:01:00", *LABEL)], "somebody with kubectl-label", id="label"),
        pytest.param(
            [entry("kubectl-edit", "00:02:00", *LABEL), entry("ansible", "00:01:00", *LABEL)],
            "somebody with kubectl-edit",
            id="the newer of two",
        ),
        pytest.param([entry("npu-warden", "00:01:00", *LABEL)], "the npu-warden command", id="our command"),
        pytest.param(
            [KUBELET, entry("kubectl-label", "00:03:00", "metadata")], "somebody with kubectl-label", id="gone"
        ),
        pytest.param(
            [entry("kubectl-label", "00:01:00", *LABEL), entry("kubelet", "00:09:00", *LABEL, subresource="status")],
            "somebody with kubectl-label",
            id="a status",
        ),
        pytest.param([], "somebody with kubectl", id="no managedFields"),
        pytest.param(["what", {"manager": 5, "fieldsV1": []}], "somebody with 5", id="strange"),
    ],
)
def test_who_wrote_a_field_is_what_managed_fields_say(entries: list[Any], who: str) -> None:
    assert writer_of({"metadata": {"managedFields": entries}}, *LABEL) == who


def test_all_wishes_that_stand_are_found() -> None:
    lab = VirtualCluster(
        [node("a", labels={OPT_OUT_LABEL: "true"}), node("b"), node("c", labels={OPT_OUT_LABEL: "no"})]
    )
    lab.isolate("b")
    lab.pause("works (by eve)")
    lab.run_until(5)
    found = wishes_of(lab.warden.snapshot())
    assert set(found) == {(PAUSE, CONTROL_CONFIGMAP), (OPT_OUT, "a"), (ISOLATE, "b")}
    assert found[PAUSE, CONTROL_CONFIGMAP].why == "works (by eve)"
    lab.pause(None)
    lab.run_until(6)
    assert (PAUSE, CONTROL_CONFIGMAP) not in wishes_of(lab.warden.snapshot())


@pytest.mark.parametrize(
    ("wish", "obj", "stands", "reason", "says"),
    [
        (Wish(PAUSE, CONTROL_CONFIGMAP, "works (by eve)"), {}, True, "Paused", "works (by eve)"),
        (Wish(PAUSE, CONTROL_CONFIGMAP, "works"), {"data": {"paused": "works"}}, False, "Resumed", "its time is over"),
        (Wish(PAUSE, CONTROL_CONFIGMAP, "works"), {"data": {}}, False, "Resumed", "by somebody with kubectl"),
        (Wish(OPT_OUT, "a"), {"metadata": {"uid": "u"}}, True, "OptedOut", "by somebody with kubectl"),
        (Wish(OPT_OUT, "a"), {"metadata": {"uid": "u"}}, False, "OptedIn", "by somebody with kubectl"),
        (Wish(ISOLATE, "a", "fan"), {"metadata": {"uid": "u"}}, True, "IsolateAsked", "fan; by somebody with kubectl"),
        (Wish(ISOLATE, "a", "fan (by eve)"), {}, False, "IsolateWithdrawn", "by somebody with kubectl"),
    ],
)
def test_each_is_an_event_on_what_carries_it(
    wish: Wish, obj: dict[str, Any], stands: bool, reason: str, says: str
) -> None:
    told = wish_event(wish, obj, stands=stands, now=T0).body
    assert (told["reason"], told["involvedObject"]["name"]) == (reason, wish.name)
    assert says in told["message"]


def test_a_release_with_kubectl_says_which_program_asked() -> None:
    lab = VirtualCluster([node(name) for name in "abc"])
    lab.run_until(5)
    managed = [entry("kubectl-annotate", "00:01:00", "metadata", "annotations", RELEASE_ANNOTATION)]
    lab.merge("Node/a", {"metadata": {"annotations": {ISOLATE_ANNOTATION: "fan"}}})
    lab.run_until(10)
    lab.merge("Node/a", {"metadata": {"annotations": {RELEASE_ANNOTATION: "new fan"}, "managedFields": managed}})
    lab.run_until(12)
    (told,) = [one for one in lab.store.objects("events") if one["reason"] == "NPUReleased"]
    assert told["message"] == "released by hand: new fan; by somebody with kubectl-annotate"
