"""What counts as which step: writes of an API server in, moments out."""

from typing import Any

import pytest

from console.lab.cluster.journal import Change, ChangeType
from console.lab.cluster.resources import BY_PLURAL
from console.lab.episode import Episode, Step
from shared.names import TAINT_KEY

OURS = {"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}


def episode() -> Episode:
    return Episode(
        node="node-0",
        home=("mindie", "prefill-0"),
        victims={"old-0": "mindie/prefill-0-master-0", "old-1": "mindie/prefill-0-worker-0"},
        bystanders={"decode": "mindie/decode-0-master-0"},
    )


def change(plural: str, obj: dict[str, Any], kind: ChangeType = "MODIFIED") -> Change:
    return Change(1, kind, BY_PLURAL[plural], obj)


def node(name: str, *taints: dict[str, str]) -> Change:
    return change("nodes", {"metadata": {"name": name}, "spec": {"taints": list(taints)}})


def pod(uid: str, on: str = "", kind: ChangeType = "MODIFIED", job: str = "prefill-0", ending: bool = False) -> Change:
    metadata: dict[str, Any] = {"namespace": "mindie", "name": uid, "uid": uid, "labels": {"job-name": job}}
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return change("pods", {"metadata": metadata, "spec": {"nodeName": on} if on else {}}, kind)


def recovery(job: str, phase: str) -> Change:
    return change(
        "recoveries",
        {
            "metadata": {"namespace": "mindie", "name": f"{job}-1"},
            "spec": {"workload": {"name": job}},
            "status": {"phase": phase},
        },
    )


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        pytest.param([node("node-0", OURS)], {"tainted": 0}, id="our taint on the broken node"),
        pytest.param([node("node-1", OURS)], {}, id="another node"),
        pytest.param([node("node-0", {"key": "other", "effect": "NoSchedule"})], {}, id="a foreign taint"),
        pytest.param([node("node-0")], {}, id="nothing to release yet"),
        pytest.param([node("node-0", OURS), node("node-0")], {"tainted": 0, "released": 1}, id="released"),
        pytest.param(
            [node("node-0", OURS), node("node-0"), node("node-0", OURS)], {"tainted": 0}, id="released too early"
        ),
        pytest.param([pod("old-0", kind="DELETED")], {}, id="one of two is gone"),
        pytest.param([pod("old-0", ending=True), pod("old-1", ending=True)], {}, id="both are only ending"),
        pytest.param([pod("old-0", kind="DELETED"), pod("old-1", kind="DELETED")], {"deleted": 1}, id="both are gone"),
        pytest.param([pod("new-0", "node-1"), pod("new-1")], {}, id="one of two is bound"),
        pytest.param([pod("new-0", "node-1"), pod("new-1", "node-2")], {"recreated": 1}, id="both are bound elsewhere"),
        pytest.param([pod("new-0", "node-1"), pod("new-1", "node-0")], {}, id="one landed on the broken node"),
        pytest.param([pod("a", "node-1", job="decode-0"), pod("b", "node-1", job="decode-0")], {}, id="another job"),
        pytest.param(
            [pod("new-0", "node-1"), pod("new-0", "node-1", ending=True), pod("new-1", "node-1")],
            {},
            id="a replacement that ends is none",
        ),
        pytest.param([recovery("prefill-0", "Restarting")], {}, id="a recovery under way"),
        pytest.param([recovery("decode-0", "Recovered")], {}, id="the recovery of another"),
        pytest.param([recovery("prefill-0", "Recovered")], {"ready": 0}, id="recovered"),
    ],
)
def test_steps(changes: list[Change], seen: dict[Step, float]) -> None:
    watched = episode()
    for second, one in enumerate(changes):
        watched.observe(one, second)
    assert watched.at == seen


def test_a_step_keeps_its_first_moment() -> None:
    watched = episode()
    watched.observe(node("node-0", OURS), 1.0)
    watched.observe(node("node-0", OURS), 2.0)
    watched.detected(3.0)
    watched.detected(4.0)
    assert watched.at == {"tainted": 1.0, "detected": 3.0}


@pytest.mark.parametrize("ending", [pod("decode", ending=True), pod("decode", kind="DELETED")])
def test_a_bystander_that_goes_is_named(ending: Change) -> None:
    watched = episode()
    watched.observe(pod("decode", "node-0"), 0)
    assert watched.harmed == {}
    watched.observe(ending, 1)
    assert watched.harmed == {"decode": "mindie/decode-0-master-0"}
