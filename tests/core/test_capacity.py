"""Where pods would find room: the rules of a scheduler that the capacity look-up knows."""

from __future__ import annotations

from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster
from console.scenario.virtual_pods import Recreate
from reconciler.core import fold
from reconciler.core.actions import OpenRecovery
from reconciler.core.capacity import Capacity, tolerates
from reconciler.core.objects import Meta, Taint, Toleration
from reconciler.core.policy import Budget, LevelOverride, Policy
from reconciler.core.precedence import rank_of_recovery, rank_of_unit
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus
from reconciler.core.state import World
from reconciler.core.units import Index, Unit, ref_of
from reconciler.workloads import unit_of
from shared.model import FaultLevel
from tests.core.build import Object, job_with_pods, node, pod
from tests.core.worlds import a_fault, after, decide, hear, kinds, reasons, report, world_of

OURS = Taint("npuwarden.io/fault", "NoSchedule", "SeparateNPU")


def shortage(world: World, names: list[str], without: set[str]) -> str | None:
    return Capacity(world.snapshot()).shortage([world.pods[f"ml/{name}"] for name in names], without)


def a_node(name: str, *, npus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    made = node(name, labels=labels)
    made["status"]["allocatable"] = {"huawei.com/Ascend910": str(npus)}
    made["spec"] = spec
    return made


TAINTED: Object = {"taints": [{"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}]}
SOFT: Object = {"taints": [{"key": "npuwarden.io/fault", "value": "SubHealthFault", "effect": "PreferNoSchedule"}]}


@pytest.mark.parametrize(
    ("spare", "fits"),
    [
        ([a_node("s")], True),
        ([], False),
        ([a_node("s", npus=4)], False),
        ([a_node("s", npus=0)], False),
        ([a_node("s", **TAINTED)], False),
        ([a_node("s", **SOFT)], True),
        ([a_node("s", unschedulable=True)], False),
        ([node("s", ready="Unknown")], False),
        ([a_node("s"), pod("other", "s", None, chips=(0,))], False),
        ([a_node("s"), pod("other", "s", None, chips=(0,), phase="Succeeded")], True),
        ([a_node("s"), pod("other", "s", None, chips=(0,), phase="Failed")], True),
        ([a_node("s"), pod("other", "s", None, chips=())], True),
    ],
    ids=[
        *("free", "none", "small", "no chips left", "tainted", "softly tainted", "cordoned", "not ready"),
        *("in use", "ended", "failed", "used by a router"),
    ],
)
def test_a_pod_needs_a_node_that_takes_it_and_has_room(spare: list[Object], fits: bool) -> None:
    world = world_of([a_node("a"), *spare, *job_with_pods("j", ("a",))])
    found = shortage(world, ["j-master-0"], {"a"})
    assert (found is None) == fits
    if not fits:
        assert found == "room for 0 of 1 pods elsewhere, the next needs 8 huawei.com/Ascend910"


def test_what_the_unit_holds_elsewhere_is_free_once_it_is_deleted() -> None:
    world = world_of([a_node("a"), a_node("b"), a_node("s"), *job_with_pods("j", ("a", "b"))])
    both = ["j-master-0", "j-worker-0"]
    assert shortage(world, both, {"a"}) is None
    assert shortage(world, both, {"a", "s"}) is not None


def test_one_free_node_is_not_enough_for_two_pods() -> None:
    world = world_of([a_node("a"), a_node("b"), a_node("s"), *job_with_pods("j", ("a", "b"))])
    found = shortage(world, ["j-master-0", "j-worker-0"], {"a", "b"})
    assert found is not None
    assert found.startswith("room for 1 of 2 pods")


def test_small_pods_share_a_node() -> None:
    pods = [pod(f"p{i}", "a", None, chips=(2 * i, 2 * i + 1)) for i in range(4)]
    names = [f"p{i}" for i in range(4)]
    assert shortage(world_of([a_node("a"), a_node("s"), *pods]), names, {"a"}) is None
    assert shortage(world_of([a_node("a"), a_node("s", npus=6), *pods]), names, {"a"}) is not None


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"pool": "npu"}}, True),
        ({"nodeSelector": {"pool": "other"}}, False),
        ({"affinity": ("In", ["npu", "big"])}, True),
        ({"affinity": ("In", ["big"])}, False),
        ({"affinity": ("NotIn", ["npu"])}, False),
        ({"affinity": ("Exists", None)}, True),
        ({"affinity": ("DoesNotExist", [])}, False),
        ({"affinity": ("Gt", ["3"])}, True),
    ],
    ids=["selector", "other selector", "In", "not In", "NotIn", "Exists", "DoesNotExist", "not understood"],
)
def test_selectors_and_required_node_affinity(spec: Object, fits: bool) -> None:
    if "affinity" in spec:
        operator, values = spec["affinity"]
        terms = [{"matchExpressions": [{"key": "pool", "operator": operator, "values": values}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec = {"affinity": {"nodeAffinity": required}}
    moved = pod("p", "a", None)
    moved["spec"] |= spec
    world = world_of([a_node("a"), a_node("s", labels={"pool": "npu"}), moved])
    assert (shortage(world, ["p"], {"a"}) is None) == fits


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="npuwarden.io/fault", operator="Exists"), True),
        (Toleration(key="npuwarden.io/fault", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="npuwarden.io/fault", value="SeparateNPU"), True),
        (Toleration(key="npuwarden.io/fault", operator="Equal", value="Manual"), False),
        (Toleration(key="node.kubernetes.io/not-ready", operator="Exists"), False),
        (Toleration(operator="Equal"), False),
    ],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    assert tolerates([toleration], OURS) == expected
    assert not tolerates(None, OURS)


def test_a_node_that_is_gone_is_no_place() -> None:
    world = world_of([a_node("a"), a_node("s"), *job_with_pods("j", ("a",))])
    fold.observe(world, "Node", "gone", a_node("s"))
    assert shortage(world, ["j-master-0"], {"a"}) is not None


# What the plan makes of it.


def asks(chip: int = 3) -> Any:
    return a_fault(chip, level=FaultLevel.RESTART_REQUEST)


@pytest.mark.parametrize(("spares", "opened"), [(0, False), (1, True)])
def test_a_unit_that_still_serves_stays_where_it_is_until_there_is_room(spares: int, opened: bool) -> None:
    spare = [a_node(f"s{i}") for i in range(spares)]
    world = world_of([a_node("a"), a_node("b"), *spare, *job_with_pods("j", ("a", "b"))])
    hear(world, report("a", asks()))
    decide(world)
    decided = decide(world, after(61))
    assert any(kind.startswith("OpenRecovery") for kind in kinds(decided)) == opened
    if not opened:
        assert reasons(decided, "ml/j") == ["capacity"]
        hold = next(hold for hold in decided.holds if hold.subject == "ml/j")
        assert "still serves" in hold.message
        assert "room for 1 of 2 pods" in hold.message


def test_a_unit_that_is_dead_anyway_restarts_although_there_is_no_room() -> None:
    world = world_of([a_node("a"), a_node("b"), *job_with_pods("j", ("a", "b"))])
    hear(world, report("a", a_fault()))
    assert any(kind.startswith("OpenRecovery") for kind in kinds(decide(world)))


def role(name: str, labels: dict[str, str], on: str) -> list[Object]:
    return job_with_pods(name, (on,), labels={"fault-scheduling": "force"} | labels)


def test_ms_goes_first_then_decode_then_prefill() -> None:
    world = world_of(
        [
            *(a_node(name) for name in "abcd"),
            *role("a-prefill", {"app": "mindie-ms-server", "grt-group/deploy-server": "2"}, "a"),
            *role("b-plain", {}, "b"),
            *role("c-decode", {"app": "mindie-ms-server", "grt-group/deploy-server": "1"}, "c"),
            *role("z-router", {"app": "mindie-ms-coordinator"}, "d"),
        ]
    )
    hear(world, *(report(name, a_fault()) for name in "abcd"))
    opened = [action.spec.unit for action in decide(world).actions if isinstance(action, OpenRecovery)]
    assert opened == ["ml/z-router", "ml/b-plain", "ml/c-decode", "ml/a-prefill"]


@pytest.mark.parametrize(
    ("labels", "rank"),
    [
        ({"app": "mindie-ms-controller"}, 0),
        ({"role-name": "decode"}, 1),
        ({"role-name": "Prefill"}, 2),
        ({"infer.huawei.com/instanceset-name": "prefill"}, 2),
        ({}, 1),
    ],
)
def test_a_recovery_ranks_as_its_unit_even_without_pods(labels: dict[str, str], rank: int) -> None:
    job, *pods = job_with_pods("j", ("a",), labels=labels)
    world = world_of([job, *pods])
    index = Index(world.snapshot())
    unit = unit_of(world.pods["ml/j-master-0"], index)
    assert isinstance(unit, Unit)
    spec = RecoverySpec(unit.workload, unit.id, unit.level, "force", Cause("Hardware"), controller=unit.controller)
    fold.observe(world, "Pod", "gone", pods[0])
    without = Index(world.snapshot())
    assert rank_of_unit(unit)[0] == rank
    assert rank_of_recovery(Recovery(Meta("r", namespace="ml"), spec), without)[0] == rank


def test_a_recovery_without_room_says_what_is_missing() -> None:
    objects = [a_node("a"), a_node("b"), *job_with_pods("j", ("a", "b"))]
    lab = VirtualCluster(objects, policy=Policy(), recreate=Recreate(after=1, ready=1, nodes=("b",)))
    lab.run_until(10)
    lab.report("a", [a_fault()])
    lab.run_until(40)
    status = lab.recoveries[0]["status"]
    assert (status["phase"], status["reason"]) == ("WaitingForCapacity", "capacity")
    assert "the next needs 8 huawei.com/Ascend910" in status["message"]


def two_that_serve(world: World, *levels: FaultLevel) -> list[str]:
    """Who is restarted when these faults hit `j` on a and `k` on b at once."""
    policy = Policy(budget=Budget(restarting="100%"), levels={ASKS: LevelOverride(reschedule="now")})
    world.policy = policy
    for name, level in zip("ab", levels, strict=True):
        hear(world, report(name, a_fault(3, level=level)))
    return [kind.split("/")[-1].split("-")[0] for kind in kinds(decide(world)) if kind.startswith("OpenRecovery")]


ASKS = FaultLevel.RESTART_REQUEST


@pytest.mark.parametrize(("spares", "opened"), [(0, []), (1, ["j"]), (2, ["j", "k"])])
def test_two_that_serve_do_not_share_the_room_of_one(spares: int, opened: list[str]) -> None:
    spare = [a_node(f"s{i}") for i in range(spares)]
    jobs = [*job_with_pods("j", ("a",)), *job_with_pods("k", ("b",))]
    assert two_that_serve(world_of([a_node("a"), a_node("b"), *spare, *jobs]), ASKS, ASKS) == opened


def test_what_is_dead_anyway_takes_the_room_first() -> None:
    jobs = [*job_with_pods("j", ("a",)), *job_with_pods("k", ("b",))]
    world = world_of([a_node("a"), a_node("b"), a_node("s"), *jobs])
    assert two_that_serve(world, ASKS, FaultLevel.SEPARATE_NPU) == ["k"]


def test_a_recovery_under_way_keeps_its_room() -> None:
    jobs = [*job_with_pods("j", ("a",)), *job_with_pods("k", ("b",))]
    world = world_of([a_node("a"), a_node("b"), a_node("s"), *jobs])
    owner = next(owner for owner in world.owners.values() if owner.metadata.name == "j")
    spec = RecoverySpec(ref_of(owner), "ml/j", "Job", "force", Cause("Hardware", (), ("a",)), controller=ref_of(owner))
    held = Recovery(Meta("j-1", uid="r", namespace="ml"), spec=spec, status=RecoveryStatus(phase="Isolating"))
    world.recoveries["ml/j-1"] = held
    assert two_that_serve(world, ASKS, ASKS) == []
