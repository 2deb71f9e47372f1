"""A round that goes on from the last one comes to what a full one comes to, whatever has happened in between."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from console.lab.cluster.store import Store
from console.scenario.virtual_clock import Clock
from reconciler.core import fold
from reconciler.core.actions import Isolate, Plan, Release
from reconciler.core.known import Known
from reconciler.core.objects import Meta, Owner, OwnerReference, Pod, PodSpec
from reconciler.core.plan import plan
from reconciler.core.policy import Policy
from reconciler.core.state import World
from reconciler.core.tables import GROUP_ANNOTATION, Tables, group_key
from reconciler.core.taints import with_taint
from shared.model import FaultLevel
from shared.names import ISOLATION_ANNOTATION
from tests.core.any_cluster import LAYOUTS, Wanted, layout
from tests.core.any_story import STEPS, Step, play
from tests.core.build import job_with_pods
from tests.core.test_properties import EXAMPLES, FATES, POLICIES
from tests.core.watched_cluster import Fates, WatchedCluster, WatchedWarden
from tests.core.well import well
from tests.core.worlds import T0, a_fault, after, hear, report, world_of


class TwofoldWarden(WatchedWarden):
    """Plans twice each time: anew, and going on from its last round."""

    def __init__(self, store: Store, clock: Clock, policy: Policy) -> None:
        super().__init__(store, clock, policy)
        self._follows: tuple[World, Known] | None = None
        self.quiet_rounds = 0

    def plan(self) -> Plan:
        now, world = self._clock.now(), self.world
        if self._follows is None or self._follows[0] is not world:  # a new term
            self._follows = world, Known()
        known = self._follows[1]
        twin = dataclasses.replace(world, memory=copy.deepcopy(world.memory))
        full = super().plan()
        fold.advance(twin, now, known)
        assert twin.memory == world.memory
        assert plan(twin.snapshot(), now, known) == full
        self.quiet_rounds += bool(known.quiet.verdicts())
        return full


class TwofoldCluster(WatchedCluster):
    warden: TwofoldWarden
    warden_type = TwofoldWarden


@pytest.mark.slow
@pytest.mark.timeout(240)
@settings(
    deadline=None,
    max_examples=max(10, EXAMPLES // 2),  # each step is planned twice
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(LAYOUTS, st.lists(STEPS, min_size=1, max_size=14), POLICIES, FATES)
def test_going_on_from_the_last_round_changes_no_plan(
    drawn: tuple[int, list[Wanted]], story: list[Step], policy: Policy, fates: Fates
) -> None:
    cluster = TwofoldCluster(layout(*drawn), policy, fates)
    play(story, cluster)
    cluster.run_until(cluster.clock.t + 120)
    assert cluster.warden.quiet_rounds, "every node was looked at in every round: nothing was tried"


def a_fleet() -> tuple[World, Known]:
    """Three nodes with a job on two of them, after a round that had nothing for any node."""
    world = world_of([*map(well, "abc"), *job_with_pods("job", ("a", "b"))])
    hear(world, *map(report, "abc"))
    known = Known()
    one_round(world, known)
    assert known.quiet.verdicts().keys() == set("abc")
    return world, known


def one_round(world: World, known: Known, seconds: float = 0) -> Plan:
    """Going on from the last round; a full one says the same."""
    now, twin = after(seconds), dataclasses.replace(world, memory=copy.deepcopy(world.memory))
    fold.advance(twin, now)
    fold.advance(world, now, known)
    assert twin.memory == world.memory
    answer = plan(world.snapshot(), now, known)
    assert plan(twin.snapshot(), now) == answer
    return answer


def restless(world: World, known: Known, seconds: float = 0) -> set[str]:
    return set(known.quiet.sift(world.snapshot(), after(seconds)))


def test_a_round_without_news_looks_at_no_node() -> None:
    world, known = a_fleet()
    assert restless(world, known) == set()


def test_a_heartbeat_is_no_news_and_a_fault_is() -> None:
    world, known = a_fleet()
    hear(world, report("a", seq=2), report("b", a_fault(), seq=2), at=after(5))
    assert restless(world, known, 5) == {"b"}
    assert [type(action).__name__ for action in one_round(world, known, 5).actions if "Node/b" in action.key] == [
        "Isolate"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, well("a")["status"]["conditions"][1]]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"annotations": {"npuwarden.io/isolate": "why"}}},
        {"metadata": {"annotations": {"npuwarden.io/release": "why"}}},
    ],
)
def test_a_node_that_changes_is_looked_at(change: dict[str, Any]) -> None:
    world, known = a_fleet()
    changed = well("a")
    for part, fields in change.items():
        changed[part] = {**changed[part], **fields}
    fold.observe(world, "Node", "set", changed)
    assert restless(world, known) == {"a"}
    one_round(world, known)


def test_silence_is_noticed_at_its_moment_and_the_alarm_is_set_for_it() -> None:
    world, known = a_fleet()
    hear(world, report("b", seq=2), report("c", seq=2), at=after(30))
    assert restless(world, known, 44.9) == set()
    assert one_round(world, known, 44.9).wake_at == pytest.approx(T0.mono + 45, abs=0.01)
    assert restless(world, known, 45.1) == {"a"}
    assert any("Unknown" in str(action) for action in one_round(world, known, 45.1).actions)


def test_a_quiet_node_without_an_agent_hides_no_other_nodes_silence() -> None:
    """A machine without NPUs runs no agent: it is never heard, and nothing is ever to be done for it."""
    without = well("c")
    without["metadata"]["annotations"] = {}
    without["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    world = world_of([*map(well, "ab"), without])
    hear(world, *map(report, "ab"))
    known = Known()
    for seconds in (0, 1):
        assert one_round(world, known, seconds).wake_at == pytest.approx(T0.mono + 45, abs=0.01)
    assert known.quiet.verdicts().keys() == set("abc")


def test_reports_that_cannot_be_read_any_more_are_news_of_every_node() -> None:
    world, known = a_fleet()
    world.reports_ok = False
    assert restless(world, known, 100) == set("abc")
    one_round(world, known, 100)
    assert restless(world, known, 5000) == set(), "while nothing can be heard nobody turns silent"


def test_a_new_policy_and_a_pod_that_was_turned_away_are_news() -> None:
    world, known = a_fleet()
    world.policy = Policy()
    assert restless(world, known) == set("abc")
    one_round(world, known)
    turned_away = job_with_pods("other", ("c",))[1]
    turned_away["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    fold.observe(world, "Pod", "set", turned_away)
    assert restless(world, known) == {"c"}
    one_round(world, known)


def test_a_node_that_leaves_is_forgotten() -> None:
    world, known = a_fleet()
    fold.observe(world, "Node", "gone", well("c"))
    one_round(world, known)
    assert known.quiet.verdicts().keys() == set("ab")


NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
PODS = st.builds(
    lambda name, uid, on, owner, group: Pod(
        Meta(
            name,
            f"{name}-{uid}",
            "ns",
            annotations={GROUP_ANNOTATION: group} if group else {},
            owner_references=(OwnerReference("v1", "Job", owner, owner, controller=True),) if owner else (),
        ),
        PodSpec(node_name=on),
    ),
    NAMES,
    st.integers(0, 2),
    st.sampled_from([None, "n0", "n1"]),
    st.sampled_from([None, "u0", "u1"]),
    st.sampled_from([None, "g0", "g1"]),
)
OWNERS = st.builds(lambda uid, version: Owner(Meta(uid, uid, "ns", version), "Job"), st.sampled_from("uv"), NAMES)
GROUPS = st.builds(
    lambda name, owner: Owner(Meta(name, name, "ns", owner_references=(OwnerReference("v1", "Job", owner, owner),))),
    st.sampled_from(["g0", "g1"]),
    st.sampled_from(["u0", "u1", "u2"]),
)


def keyed(objects: list[Any]) -> dict[str, Any]:
    return {one.metadata.key: one for one in objects}


def some_of(pool: list[Any]) -> Any:
    """What a snapshot has of them: the same objects as another snapshot, as long as they have not changed."""
    return st.lists(st.sampled_from(pool), max_size=6).map(keyed) if pool else st.just({})


SNAPSHOTS = st.tuples(*(st.lists(kind, max_size=8) for kind in (PODS, OWNERS, GROUPS))).flatmap(
    lambda pools: st.lists(st.tuples(*map(some_of, pools)), max_size=8)
)


@given(SNAPSHOTS)
def test_tables_that_follow_are_those_that_are_built_anew(
    snapshots: list[tuple[dict[str, Pod], dict[str, Owner], dict[str, Owner]]],
) -> None:
    kept, seen = Tables(), dict[str, tuple[Any, ...]]()
    for pods, owners, groups in snapshots:
        kept.follow(pods, owners, groups)
        fresh = Tables()
        fresh.follow(pods, owners, groups)
        assert (kept.by_node, kept.by_controller) == (fresh.by_node, fresh.by_controller)
        for uid in ("u0", "u1", "u2", "u", "v"):
            mine = [pod for pod in pods.values() if (ref := pod.metadata.controller) is not None and ref.uid == uid]
            theirs = {name for pod in mine if (name := group_key(pod)) is not None}
            named = [group for key, group in sorted(groups.items()) if key in theirs]
            owned = [g for _, g in sorted(groups.items()) if g.metadata.owner_references[0].uid == uid]
            all_of_it = (sorted(map(id, mine)), *map(id, named), -1, *map(id, owned), id(owners.get(f"ns/{uid}")))
            assert uid in kept.touched or seen.get(uid, all_of_it) == all_of_it
            seen[uid] = all_of_it


def test_a_changed_pod_group_touches_the_controller_whose_pods_name_it_and_the_one_that_owns_it() -> None:
    ref = OwnerReference("v1", "Job", "u0", "u0", controller=True)
    pod = Pod(Meta("p", "p", "ns", annotations={GROUP_ANNOTATION: "g"}, owner_references=(ref,)))
    group = Owner(Meta("g", "g", "ns", owner_references=(OwnerReference("v1", "Job", "u1", "u1"),)))
    tables = Tables()
    tables.follow({"ns/p": pod}, {}, {})
    for groups in ({"ns/g": group}, {"ns/g": replace(group, kind="PodGroup")}, {}):
        tables.follow({"ns/p": pod}, {}, groups)
        assert tables.touched == {"u0", "u1"}
    tables.follow({"ns/p": pod}, {}, {})
    assert tables.touched == set()


def test_an_isolated_node_is_looked_at_no_more_until_something_about_it_changes() -> None:
    world, known = a_fleet()
    hear(world, report("b", a_fault(level=FaultLevel.PRE_SEPARATE_NPU), seq=2), at=after(1))
    (isolate,) = [action for action in one_round(world, known, 1).actions if isinstance(action, Isolate)]
    isolated = well("b")
    isolated["spec"] = {"taints": with_taint(isolate.node, isolate.want, "2027-01-15T08:00:00Z")}
    isolated["metadata"]["annotations"][ISOLATION_ANNOTATION] = json.encode(isolate.record).decode()
    message = {"status": "False", "reason": "PreSeparateNPU", "message": "80E18402@3"}
    isolated["status"]["conditions"][1].update(message)
    fold.observe(world, "Node", "set", isolated)
    one_round(world, known, 2)
    assert restless(world, known, 2) == set()
    hear(world, report("b", a_fault(level=FaultLevel.PRE_SEPARATE_NPU), seq=3), at=after(3))
    assert one_round(world, known, 40).wake_at is not None
    assert restless(world, known, 40) == set(), "a heartbeat that says the same is no news"
    assert world.memory.wanted["b"][isolate.want] == after(40).mono, "and it is asked for all the time"
    hear(world, report("a", seq=3), report("b", seq=4), report("c", seq=3), at=after(41))
    assert restless(world, known, 41) == {"b"}
    assert any("hold-down" in hold.message for hold in one_round(world, known, 41).holds)
    released = [action for action in one_round(world, known, 41 + 301).actions if isinstance(action, Release)]
    assert not released, "it is silent by then, and who is silent has not healed"
    hear(world, report("b", seq=5), at=after(343))
    one_round(world, known, 343)
    hear(world, report("b", seq=6), at=after(660))
    released = [action for action in one_round(world, known, 660).actions if isinstance(action, Release)]
    assert [action.key for action in released] == ["Node/b"]
