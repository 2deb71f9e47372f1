"""What is seen goes into the world once, in order, and old news never undoes new."""

from __future__ import annotations

import pytest

from reconciler.core import fold
from reconciler.core.state import World
from tests.core.build import ascend_job, node, pod, pod_set, role_set, storm_service
from tests.core.worlds import T0, a_fault, after, hear, report, world_of


def test_a_report_is_accepted_by_session_and_seq_alone() -> None:
    world = World()
    hear(world, report("a", seq=5))
    assert fold.heard(world, report("a", seq=4), after(1)) == "old-seq"
    assert fold.heard(world, report("a", seq=6), after(2)) is None
    assert world.heard["a"].report.seq == 6
    assert world.rejected_reports == {"old-seq": 1}


def test_a_replaced_session_never_returns() -> None:
    world = World()
    hear(world, report("a", session="old", seq=9), report("a", session="new", seq=1))
    assert fold.heard(world, report("a", session="old", seq=10), after(1)) == "retired-session"
    assert world.heard["a"].report.session == "new"


def test_reading_the_same_report_again_does_not_make_it_younger() -> None:
    world = World()
    hear(world, report("a", seq=5))
    assert fold.heard(world, report("a", seq=5), after(30)) is None
    assert world.heard["a"].at == T0.mono


def test_an_older_version_of_an_object_is_ignored() -> None:
    world = World()
    new, old = node("a"), node("a", ready="False")
    new["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"] = "10", "9"
    fold.observe(world, "Node", "set", new)
    fold.observe(world, "Node", "set", old)
    assert world.nodes["a"].ready
    fold.observe(world, "Node", "gone", old)
    assert "a" in world.nodes


def test_a_list_replaces_its_kind_and_no_other() -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    world = world_of([node("a"), ascend_job("j"), service, roles, pod_set("s-p", roles)])
    fold.replace_all(world, "PodSet", [pod_set("s-q", roles)])
    assert sorted(owner.metadata.name for owner in world.owners.values()) == ["j", "s", "s-q", "s-r"]
    fold.replace_all(world, "Node", [])
    assert world.nodes == {}


@pytest.mark.parametrize(
    "raw",
    [{"metadata": {"name": 3}}, {"spec": {}}, b"{", {"metadata": {"name": "a", "labels": ["x"]}}],
)
def test_an_unreadable_object_changes_nothing_and_names_the_field(raw: dict[str, object] | bytes) -> None:
    world = world_of([node("a")])
    with pytest.raises(fold.BadObject, match="Node:"):
        fold.observe(world, "Node", "set", raw)
    with pytest.raises(fold.BadObject, match="Node:"):
        fold.replace_all(world, "Node", [raw])
    assert list(world.nodes) == ["a"]


@pytest.mark.parametrize(("data", "paused"), [({"paused": "drill"}, "drill"), ({"paused": ""}, None), (None, None)])
def test_the_control_configmap_pauses(data: dict[str, str] | None, paused: str | None) -> None:
    world = World()
    config = {"metadata": {"name": "npuwarden-control", "namespace": "npuwarden-system"}, "data": data}
    fold.observe(world, "ConfigMap", "set", config)
    assert world.paused == paused
    fold.observe(world, "ConfigMap", "gone", config)
    assert world.paused is None


def test_memory_forgets_what_has_ended() -> None:
    world = world_of([node("a", ready="False")])
    fold.advance(world, T0)
    fold.observe(world, "Node", "set", node("a"))
    fold.advance(world, after(1))
    assert world.memory.not_ready_since == {}
    fold.observe(world, "Node", "set", node("a", ready="False"))
    fold.advance(world, after(2))
    assert world.memory.not_ready_since == {"a": after(2).mono}


def test_pods_are_kept_by_name_and_a_new_incarnation_replaces_the_old() -> None:
    world = world_of([pod("p", "a", None, uid="1"), pod("p", "b", None, uid="2")])
    assert [p.metadata.uid for p in world.pods.values()] == ["2"]


def test_a_node_that_left_the_cluster_is_forgotten_an_hour_after_its_last_report() -> None:
    world = world_of([node("b")])
    hear(world, report("a", a_fault()), report("b"))
    fold.advance(world, after(3599))
    assert set(world.heard) == {"a", "b"}
    fold.advance(world, after(3601))
    assert set(world.heard) == {"b"}
    assert ("a", "80E18402@3") not in world.memory.first_heard
