"""Too much at once is held and said; what is alone is believed; nothing holds a release."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.core import clock, fold
from reconciler.core.policy import Breaker, CommonCause, LevelOverride, Observe, Policy
from reconciler.core.state import World
from shared.model import AgentInfo, Fault, FaultLevel, fault_id
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
