"""The windows that a workload's annotations give to passing faults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import fold
from reconciler.core.muting import FILTER_CODE, FILTER_LEVEL, MAX_S, parse, window_of
from reconciler.core.policy import Policy, Reschedule
from reconciler.core.units import Index, Unit
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from tests.core.build import FORCE, Object, ascend_job, job_with_pods, node, pod
from tests.core.worlds import T0, a_fault, after, decide, hear, kinds, reasons, report, world_of

REQUEST = a_fault(3, "80C98008", FaultLevel.RESTART_REQUEST)
SEPARATE = a_fault(3, "80E18402", FaultLevel.SEPARATE_NPU)


@pytest.mark.parametrize(
    ("text", "windows", "bad"),
    [
        ("80C98008:120", {"80C98008": 120}, ()),
        ("80C98008", {"80C98008": 60}, ()),
        ("80c98008:5, 80E18402:0", {"80C98008": 5, "80E18402": 0}, ()),
        ("80C98008\uff1a30\uff0c80E18402", {"80C98008": 30, "80E18402": 60}, ()),
        ("RestartRequest:86400", {"RestartRequest": 86400}, ()),
        ("80C98008:86401", {}, ("80C98008:86401",)),
        ("80C98008:-1,80E18402:7", {"80E18402": 7}, ("80C98008:-1",)),
        ("80C98008:1.5", {}, ("80C98008:1.5",)),
        ("80C98008:,x y:3, 80E18402 : 4", {"80E18402": 4}, ("80C98008:", "x y:3")),
        ("80C98008:9,80C98008:8", {"80C98008": 9}, ("80C98008:8",)),
        ("", {}, ()),
        (",,", {}, ()),
    ],
)
def test_what_is_written_is_read_and_what_cannot_be_read_is_left_out_alone(
    text: str, windows: dict[str, float], bad: tuple[str, ...]
) -> None:
    assert parse(text) == (windows, bad)


@given(st.text(alphabet="80CERestartRequest:,\uff1a\uff0c -.", max_size=60))
def test_no_text_breaks_it_and_no_window_leaves_its_bounds(text: str) -> None:
    windows, _ = parse(text)
    assert all(0 <= seconds <= MAX_S for seconds in windows.values())


def job(annotations: dict[str, str], on: str = "owner") -> list[Object]:
    """A job whose annotations stand on the owner, on one pod or on its PodGroup."""
    owner = ascend_job("j", replicas=2)
    pods = [pod(f"j-{role}-0", where, owner, group="g") for role, where in (("master", "a"), ("worker", "b"))]
    group: Object = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "ml", "annotations": {}}}
    holder = {"owner": owner, "pod": pods[1], "group": group}[on]
    holder["metadata"]["annotations"] = {**(holder["metadata"].get("annotations") or {}), **annotations}
    return [node("a"), node("b"), node("spare"), owner, group, *pods]


@pytest.mark.parametrize("on", ["owner", "pod", "group"])
def test_it_counts_wherever_labels_count(on: str) -> None:
    world = world_of(job({FILTER_CODE: "80C98008:7"}, on))
    index = Index(world.snapshot())
    unit = unit_of(world.pods["ml/j-master-0"], index)
    assert isinstance(unit, Unit)
    assert window_of(unit, index, REQUEST, usual_s=60).seconds == 7


@pytest.mark.parametrize(
    ("annotations", "fault", "usual_s", "seconds", "notes"),
    [
        ({}, REQUEST, 60, 60, 0),
        ({FILTER_CODE: "80C98008:5", FILTER_LEVEL: "RestartRequest:9"}, REQUEST, 60, 5, 0),
        ({FILTER_CODE: "81078603:5", FILTER_LEVEL: "RestartRequest:9"}, REQUEST, 60, 9, 0),
        ({FILTER_LEVEL: "SeparateNPU:9"}, REQUEST, 60, 60, 0),
        ({FILTER_LEVEL: "SeparateNPU"}, SEPARATE, 0, 60, 0),
        ({FILTER_LEVEL: "separatenpu:9"}, SEPARATE, 0, 0, 0),
        ({FILTER_CODE: "80C98008:x"}, REQUEST, 60, 60, 1),
    ],
)
def test_the_code_goes_before_the_level_and_what_is_not_named_is_as_usual(
    annotations: dict[str, str], fault: Any, usual_s: float, seconds: float, notes: int
) -> None:
    world = world_of(job(annotations))
    index = Index(world.snapshot())
    unit = unit_of(world.pods["ml/j-master-0"], index)
    assert isinstance(unit, Unit)
    found = window_of(unit, index, fault, usual_s=usual_s)
    assert (found.seconds, len(found.notes)) == (seconds, notes)


def test_two_different_values_are_none_and_said() -> None:
    objects = job({FILTER_CODE: "80C98008:5"})
    objects[-1]["metadata"]["annotations"][FILTER_CODE] = "80C98008:7"
    world = world_of(objects)
    hear(world, report("a", REQUEST))
    held = [hold for hold in decide(world).holds if hold.reason == "muted"]
    assert [("60 s" in hold.message, "different values" in hold.message) for hold in held] == [(True, True)]


@pytest.mark.parametrize(
    ("annotations", "fault", "restarts_after_s"),
    [
        ({}, REQUEST, 60),
        ({FILTER_CODE: "80C98008:0"}, REQUEST, 0),
        ({FILTER_CODE: "80C98008:20"}, REQUEST, 20),
        ({FILTER_LEVEL: "RestartRequest:300"}, REQUEST, 300),
        ({}, SEPARATE, 0),
        ({FILTER_CODE: "80E18402:30"}, SEPARATE, 30),
    ],
)
def test_the_restart_comes_when_the_window_is_over_and_not_before(
    annotations: dict[str, str], fault: Any, restarts_after_s: float
) -> None:
    world = world_of(job(annotations))
    hear(world, report("a", fault))
    first = decide(world, T0)
    opened = [kind for kind in kinds(first) if kind.startswith("OpenRecovery")]
    assert bool(opened) is (restarts_after_s == 0)
    if restarts_after_s:
        assert reasons(first, "ml/j") == ["muted"]
        assert first.wake_at is not None
        assert first.wake_at <= T0.mono + restarts_after_s + 0.01
        almost = decide(world, after(restarts_after_s - 1))
        assert not any(kind.startswith("OpenRecovery") for kind in kinds(almost))
        over = decide(world, after(restarts_after_s + 1))
        assert any(kind.startswith("OpenRecovery") for kind in kinds(over))


def test_the_window_is_the_workloads_own_and_the_policy_keeps_the_rest() -> None:
    policy = Policy(reschedule=Reschedule(restart_request_after_s=10))
    slow, fast = job({FILTER_LEVEL: "RestartRequest:100"}), job_with_pods("k", ("a",), labels=FORCE)
    world = world_of([*slow, *fast], policy=policy)
    hear(world, report("a", REQUEST))
    decide(world, T0)
    opened = [kind for kind in kinds(decide(world, after(15))) if kind.startswith("OpenRecovery")]
    assert len(opened) == 1
    assert "Recovery/ml/k-" in opened[0]


def test_a_dead_node_is_never_muted() -> None:
    world = world_of([*job({FILTER_LEVEL: "RestartRequest:86400,SeparateNPU:86400"})])
    hear(world, report("a"), report("b"))
    decide(world, T0)
    fold.observe(world, "Node", "set", node("a", ready="Unknown"))
    decide(world, after(10))
    opened = [kind for kind in kinds(decide(world, after(80))) if kind.startswith("OpenRecovery")]
    assert len(opened) == 1
