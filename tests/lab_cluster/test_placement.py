"""Where the lab's scheduler puts a pod, and what it says when there is no place."""

from __future__ import annotations

from typing import Any

import pytest

from console.lab.cluster.placement import GROUP_ANNOTATION, place
from console.lab.cluster.workloads import NPU, lab_node

Object = dict[str, Any]

FAULT = {"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}
SOFT = {**FAULT, "effect": "PreferNoSchedule"}


def node(name: str, *, taints: list[Object] | None = None, ready: str = "True", cordoned: bool = False) -> Object:
    made = lab_node(name, labels={"rack": f"rack-{name}"})
    made["spec"] = {"taints": taints or [], "unschedulable": cordoned}
    made["status"]["conditions"][0]["status"] = ready
    return made


def pod(name: str = "p", *, npus: int = 8, on: str = "", group: str = "", **spec: Any) -> Object:
    amounts = {NPU: str(npus)}
    containers = [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": {GROUP_ANNOTATION: group} if group else {}},
        "spec": {"containers": containers, **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


CASES: dict[str, tuple[list[Object], list[Object], str]] = {
    "free nodes: by name": ([node("b"), node("a")], [pod()], "a"),
    "most free NPUs": ([node("a"), node("b")], [pod("x", npus=4, on="a"), pod(npus=4)], "b"),
    "without NPUs: fewest pods": ([node("a"), node("b")], [pod("x", npus=0, on="a"), pod(npus=0)], "b"),
    "NoSchedule is respected": ([node("a", taints=[FAULT]), node("b")], [pod()], "b"),
    "tolerated by key": (
        [node("a", taints=[FAULT]), node("b")],
        [pod("x", on="b"), pod(tolerations=[{"key": FAULT["key"], "operator": "Exists"}])],
        "a",
    ),
    "tolerated by anything": (
        [node("a", taints=[FAULT])],
        [pod(tolerations=[{"operator": "Exists"}])],
        "a",
    ),
    "another value is not tolerated": (
        [node("a", taints=[FAULT])],
        [pod(tolerations=[{"key": FAULT["key"], "value": "Manual"}])],
        "0/1 nodes are available: 1 node(s) had untolerated taint {npuwarden.io/fault: SeparateNPU}.",
    ),
    "PreferNoSchedule only when nothing else is left": (
        [node("a", taints=[SOFT]), node("b")],
        [pod("x", npus=1, on="b"), pod(npus=1)],
        "b",
    ),
    "PreferNoSchedule rather than not at all": ([node("a", taints=[SOFT])], [pod()], "a"),
    "nodeSelector": ([node("a"), node("b")], [pod(nodeSelector={"rack": "rack-b"})], "b"),
    "a pod that has failed holds nothing": (
        [node("a")],
        [{**pod("x", on="a"), "status": {"phase": "Failed"}}, pod()],
        "a",
    ),
    "nothing fits": (
        [node("a"), node("b", ready="Unknown"), node("c", cordoned=True)],
        [pod("x", on="a"), pod()],
        (
            "0/3 nodes are available: 1 Insufficient huawei.com/Ascend910, 1 node(s) were not ready, "
            "1 node(s) were unschedulable."
        ),
    ),
}


@pytest.mark.parametrize(("nodes", "pods", "expected"), CASES.values(), ids=CASES.keys())
def test_one_pod(nodes: list[Object], pods: list[Object], expected: str) -> None:
    (answer,) = place(pods, nodes, [])
    assert (answer.node or answer.why) == expected


@pytest.mark.parametrize(("nodes", "bound"), [(1, 0), (2, 2), (3, 2)])
def test_a_gang_is_bound_whole_or_not_at_all(nodes: int, bound: int) -> None:
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
    pods = [pod("a", group="g"), pod("b", group="g")]
    answers = place(pods, [node(str(n)) for n in range(nodes)], [group])
    assert sum(1 for answer in answers if answer.node) == bound
    assert all(answer.node or answer.why for answer in answers)


def test_a_gang_that_waits_takes_no_room_from_others() -> None:
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
    pods = [pod("a", group="g"), pod("b", group="g"), pod("c")]
    answers = {answer.pod["metadata"]["name"]: answer.node for answer in place(pods, [node("n")], [group])}
    assert answers == {"a": "", "b": "", "c": "n"}


def test_bound_members_count_towards_the_gang() -> None:
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
    (answer,) = place([pod("a", group="g", on="x"), pod("b", group="g")], [node("x"), node("y")], [group])
    assert answer.node == "y"
