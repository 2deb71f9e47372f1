"""Too much at once is held and said; what is alone is believed; nothing holds a release."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.core import clock, fold
from reconciler.core.actions import Isolate
from reconciler.core.calls import Outcome
from reconciler.core.policy import Breaker, CommonCause, LevelOverride, Observe, Policy
from reconciler.core.state import World
from shared.model import AgentInfo, Fault, FaultLevel, fault_id
from shared.names import ISOLATE_ANNOTATION, RELEASE_ANNOTATION
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0, a_fault, after, decide, hear, kinds, reasons, report, world_of

NAMES = [f"n{i:02}" for i in range(12)]


def fleet(*, policy: Policy | None = None, racks: int | None = None) -> World:
    labels = [{"topology.kubernetes.io/rack": f"r{i % racks}"} if racks else {} for i in range(len(NAMES))]
    world = world_of([node(n, labels=lab) for n, lab in zip(NAMES, labels, strict=True)], policy=policy)
    hear(world, *(report(name) for name in NAMES))
    return world


def at(since_s: float, code: str = "80E18402") -> Fault:
    return Fault(fault_id(code, 3), code, 3, FaultLevel.SEPARATE_NPU, T0.wall + since_s, True)


def isolated(world: World) -> int:
    return sum(kind.startswith("Isolate") for kind in kinds(decide(world)))


OFF = CommonCause(nodes=1000)
UNBRAKED = Breaker(nodes="100%")


@pytest.mark.parametrize(
    ("struck", "since_s", "codes", "racks", "passes"),
    [
        (4, 0, 1, None, 4),
        (5, 0, 1, None, 0),
        (6, 0, 1, None, 0),
        (6, 31, 1, None, 6),
        (6, 0, 6, None, 6),
        (6, 0, 1, 3, 6),
        (12, 0, 1, 6, 0),
    ],
    ids=["four", "five", "six", "six, half a minute apart", "six codes", "three racks", "six racks"],
)
def test_one_code_in_many_failure_domains_at_once_is_suspect(
    struck: int, since_s: float, codes: int, racks: int | None, passes: int
) -> None:
    world = fleet(policy=Policy(breaker=UNBRAKED), racks=racks)
    for i, name in enumerate(NAMES[:struck]):
        hear(world, report(name, at(-i * since_s, f"80E1840{i % codes}"), seq=2))
    assert isolated(world) == passes
    if not passes:
        assert reasons(decide(world), NAMES[0]) == ["common-cause"]


def test_a_node_with_a_fault_of_its_own_is_believed_in_a_burst() -> None:
    world = fleet(policy=Policy(breaker=UNBRAKED))
    for name in NAMES[:6]:
        hear(world, report(name, at(0), seq=2))
    hear(world, report(NAMES[0], at(0), a_fault(1, "80E18008"), seq=3))
    assert kinds(decide(world)) == [f"Isolate Node/{NAMES[0]}"]


def test_a_burst_restarts_nothing_even_on_nodes_that_are_tainted_already() -> None:
    world = world_of([*(node(name) for name in NAMES), *job_with_pods("j", (NAMES[0], NAMES[1]))])
    for name in NAMES:
        hear(world, report(name, *([at(0)] if name in NAMES[:6] else [])))
    decided = decide(world)
    assert kinds(decided) == []
    assert "common-cause" in reasons(decided, "ml/j")


@pytest.mark.parametrize(("nodes", "limit"), [("50%", 6), ("10%", 3), ("100%", 12), ("4", 4), ("1", 3)])
def test_the_breaker_opens_at_its_limit_and_never_below_three(nodes: str, limit: int) -> None:
    world = fleet(policy=Policy(breaker=Breaker(nodes=nodes), common_cause=OFF))
    for name in NAMES:
        hear(world, report(name, at(0), seq=2))
    assert isolated(world) == limit
    assert reasons(decide(world), NAMES[-1]) == (["breaker"] if limit < 12 else [])


@pytest.mark.parametrize(("since_s", "passes"), [(-299, False), (-301, True)])
def test_the_breakers_window_stands_in_the_cluster(since_s: float, passes: bool) -> None:
    """A new leader that finds six nodes just isolated by its predecessor isolates no seventh."""
    world = fleet(policy=Policy(common_cause=OFF))
    for name in NAMES[:6]:
        tainted = node(name)
        tainted["spec"]["taints"] = [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]
        since = clock.rfc3339(T0.wall + since_s)
        tainted["metadata"]["annotations"] = {"npuwarden.io/isolation": f'{{"session":"s","since":"{since}"}}'}
        fold.observe(world, "Node", "set", tainted)
        hear(world, report(name, at(since_s), seq=2))
    hear(world, report(NAMES[6], at(0), seq=2))
    assert bool(isolated(world)) is passes


def test_the_breaker_lets_every_release_pass() -> None:
    world = fleet(policy=Policy(common_cause=OFF))
    for name in NAMES:
        tainted = node(name)
        tainted["spec"]["taints"] = [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]
        fold.observe(world, "Node", "set", tainted)
    decide(world)
    for name in NAMES:
        hear(world, report(name, seq=2), at=after(301))
    released = [kind for kind in kinds(decide(world, after(301))) if kind.startswith("Release")]
    assert len(released) == len(NAMES)


@pytest.mark.parametrize(
    ("new", "struck", "older", "passes"),
    [
        (6, 6, 0, 0),
        (6, 4, 0, 4),
        (12, 6, 0, 6),
        (6, 6, 1, 7),
    ],
    ids=["the new ones only", "too few", "all run it", "an old one sees some too"],
)
def test_faults_of_one_agent_version_alone_make_the_version_suspect(
    new: int, struck: int, older: int, passes: int
) -> None:
    world = fleet(policy=Policy(breaker=UNBRAKED))
    seen = [*range(struck), *range(len(NAMES) - older, len(NAMES))]
    for i, name in enumerate(NAMES):
        faults = (at(0, f"80E1840{i:X}"),) if i in seen else ()
        said = report(name, *faults, seq=2)
        version = "2.0" if i < new else "1.0"
        hear(world, msgspec.structs.replace(said, agent=AgentInfo(version)))
    assert isolated(world) == passes
    if not passes:
        assert reasons(decide(world), NAMES[0]) == ["common-cause"]


@pytest.mark.parametrize(
    "policy",
    [
        Policy(observe=Observe(codes=("80E18402",))),
        Policy(levels={FaultLevel.SEPARATE_NPU: LevelOverride(observe_only=True)}),
    ],
    ids=["the code", "the level"],
)
def test_a_rule_on_trial_is_told_and_does_nothing(policy: Policy) -> None:
    world = fleet(policy=policy)
    hear(world, report(NAMES[0], at(0), seq=2))
    decided = decide(world)
    assert kinds(decided) == []
    assert reasons(decided, NAMES[0]) == ["observe-only"]


def test_a_fault_beside_one_on_trial_isolates() -> None:
    world = fleet(policy=Policy(observe=Observe(codes=("80E18402",))))
    hear(world, report(NAMES[0], at(0), at(0, "80E18403"), seq=2))
    assert isolated(world) == 1


@pytest.mark.parametrize(
    ("ended", "passes"),
    [
        (None, False),
        (Outcome(False, "no-answer"), False),
        (Outcome(False, "conflict"), True),
        (Outcome(False, "not-read-back"), True),
    ],
    ids=["under way", "may stand", "refused", "taken off again"],
)
def test_an_isolation_has_its_place_from_its_beginning(ended: Outcome | None, passes: bool) -> None:
    world = fleet(policy=Policy(common_cause=OFF))
    for name in NAMES[6:]:
        hear(world, report(name, at(0), seq=2))
    begun = [action for action in decide(world).actions if isinstance(action, Isolate)]
    assert len(begun) == 6
    for action in begun:
        fold.begun(world, action)
    if ended is not None:
        fold.outcome(world, begun[0], ended, T0)
    hear(world, report(NAMES[0], at(0), seq=2))
    decided = decide(world)
    assert (f"Isolate Node/{NAMES[0]}" in kinds(decided)) is passes
    assert {f"Isolate Node/{name}" for name in NAMES[7:]} <= set(kinds(decided)), "what was begun is not held by itself"


def test_an_isolation_without_an_answer_holds_its_place_for_a_window() -> None:
    world = fleet(policy=Policy(common_cause=OFF, breaker=Breaker(window_s=20)))
    for name in NAMES[6:]:
        hear(world, report(name, at(0), seq=2))
    for action in decide(world).actions:
        fold.begun(world, action)
    hear(world, report(NAMES[0], at(0), seq=2))
    assert f"Isolate Node/{NAMES[0]}" not in kinds(decide(world, at=after(19)))
    assert f"Isolate Node/{NAMES[0]}" in kinds(decide(world, at=after(21)))


def stood(world: World, count: int, since_s: float) -> None:
    """So many nodes were isolated so long ago, and are faulty still."""
    for name in NAMES[:count]:
        tainted = node(name)
        tainted["spec"]["taints"] = [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]
        since = clock.rfc3339(T0.wall + since_s)
        tainted["metadata"]["annotations"] = {"npuwarden.io/isolation": f'{{"session":"s","since":"{since}"}}'}
        fold.observe(world, "Node", "set", tainted)
        hear(world, report(name, at(since_s), seq=2))


@pytest.mark.parametrize(
    ("count", "since_s", "passes"),
    [(6, -10, 0), (6, -301, 1), (6, -10_000, 1), (5, -10_000, 6), (6, 30, 0)],
    ids=["open", "half-open", "half-open long after", "never was open", "isolated by a leader whose clock ran ahead"],
)
def test_an_opened_breaker_lets_one_node_pass_a_window_while_the_others_stay_isolated(
    count: int, since_s: float, passes: int
) -> None:
    world = fleet(policy=Policy(common_cause=OFF))
    stood(world, count, since_s)
    for name in NAMES[6:]:
        hear(world, report(name, at(0), seq=2))
    assert isolated(world) == passes


def test_the_breaker_closes_when_enough_nodes_are_released() -> None:
    world = fleet(policy=Policy(common_cause=OFF))
    stood(world, 6, -1000)
    for name in NAMES[:2]:
        fold.observe(world, "Node", "set", node(name))
        hear(world, report(name, seq=3))
    for name in NAMES[6:]:
        hear(world, report(name, at(0), seq=2))
    assert isolated(world) == 6


def test_a_share_of_the_fleet_is_one_of_the_nodes_with_npus() -> None:
    world = fleet(policy=Policy(common_cause=OFF))
    for i in range(60):
        other = node(f"cpu{i}")
        other["status"]["allocatable"] = other["status"]["capacity"] = {"cpu": "64"}
        fold.observe(world, "Node", "set", other)
    for name in NAMES:
        hear(world, report(name, at(0), seq=2))
    assert isolated(world) == 6


def test_not_ready_nodes_with_npus_are_a_storm_however_many_others_are_ready() -> None:
    world = fleet()
    for i in range(60):
        other = node(f"cpu{i}")
        other["status"]["allocatable"] = other["status"]["capacity"] = {"cpu": "64"}
        fold.observe(world, "Node", "set", other)
    for name in NAMES[:6]:
        fold.observe(world, "Node", "set", node(name, ready="False"))
    decide(world)
    for name in NAMES:
        hear(world, report(name, seq=2), at=after(61))
    decided = decide(world, after(62))
    assert [kind for kind in kinds(decided) if kind.startswith("Isolate")] == []
    assert "common-cause" in reasons(decided, NAMES[0])


def wish(world: World, name: str) -> None:
    asked = node(name)
    asked["metadata"]["annotations"] = {ISOLATE_ANNOTATION: "smells of smoke"}
    fold.observe(world, "Node", "set", asked)


@pytest.mark.parametrize("brake", ["breaker", "common cause", "pause"])
def test_no_brake_holds_what_a_person_wants_isolated_nor_counts_it(brake: str) -> None:
    world = fleet(policy=Policy(common_cause=CommonCause() if brake == "common cause" else OFF))
    if brake == "breaker":
        stood(world, 6, -10)
    for name in NAMES[6:]:
        hear(world, report(name, at(0), seq=2))
    world.paused = "upgrade" if brake == "pause" else None
    wish(world, NAMES[11])
    (made,) = [a for a in decide(world).actions if isinstance(a, Isolate) and a.want.value == "Manual"]
    assert made.node.metadata.name == NAMES[11]
    assert made.record.by == "operator"


def test_a_release_by_hand_is_carried_out_by_a_warden_that_only_observes() -> None:
    world = fleet(policy=Policy(observe_only=True))
    stood(world, 1, -1000)
    isolated_node = world.nodes[NAMES[0]]
    notes = {**isolated_node.metadata.annotations, RELEASE_ANNOTATION: "repaired"}
    meta = msgspec.structs.replace(isolated_node.metadata, annotations=notes)
    world.nodes[NAMES[0]] = msgspec.structs.replace(isolated_node, metadata=meta)
    assert kinds(decide(world)) == [f"Release Node/{NAMES[0]}"]
