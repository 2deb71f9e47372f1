"""What a Recovery keeps of its faults: codes and the identity of the chip, bounded, and only what concerns it."""

import msgspec
import pytest

from reconciler.core import fold
from reconciler.core.actions import Claim, OpenRecovery
from reconciler.core.evidence import MAX_DETAIL, MAX_FAULTS, evidence_of
from reconciler.core.recovery import Target
from reconciler.core.state import World
from shared.model import Chip, Fault, FaultLevel, fault_id
from tests.core.build import job_with_pods, node
from tests.core.worlds import T0, a_fault, after, decide, hear, report, world_of

CHIP = Chip(3, "fault", pci="0000:c1:00.0", die="DIE-3", codes=("80E18402", "80C98009"))


def target(chips: tuple[int, ...] | None = (3,), on: str | None = "a") -> Target:
    return Target("pod", "uid", on, chips=chips)


def world(*faults: Fault) -> World:
    made = world_of([node(name) for name in "ab"])
    hear(made, report("a", *faults, chips=(CHIP,)), report("b"))
    return made


def codes(made: World, *targets: Target) -> list[str]:
    return [f"{one.code}@{one.chip}" for one in evidence_of(made.snapshot(), ["a"], targets)]


def test_the_chip_is_named_so_that_it_is_found_again() -> None:
    (one,) = evidence_of(world(a_fault()).snapshot(), ["a"], [target()])
    assert (one.node, one.chip, one.pci, one.die) == ("a", 3, "0000:c1:00.0", "DIE-3")
    assert (one.code, one.level, one.codes) == ("80E18402", "SeparateNPU", ("80E18402", "80C98009"))
    assert one.since == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize(
    ("targets", "kept"),
    [
        ([target((3,))], ["80E18402@3", "NW-DISK@None"]),
        ([target((1, 2))], ["NW-DISK@None"]),
        ([target(None)], ["80E18402@3", "NW-DISK@None"]),
        ([target((1,)), target((3,))], ["80E18402@3", "NW-DISK@None"]),
        ([target((1,)), target(None)], ["80E18402@3", "NW-DISK@None"]),
        ([target((3,), on=None)], ["NW-DISK@None"]),
    ],
    ids=["its chip", "others' chips", "nobody knows", "one of two pods", "one of two nobody knows", "on no node"],
)
def test_faults_of_the_chips_it_used_and_of_the_node(targets: list[Target], kept: list[str]) -> None:
    assert codes(world(a_fault(), a_fault("node", "NW-DISK", FaultLevel.PRE_SEPARATE_NPU)), *targets) == kept


def test_what_is_only_recorded_is_no_evidence() -> None:
    assert codes(world(a_fault(level=FaultLevel.NOT_HANDLE)), target()) == []


def test_the_most_serious_stay_when_there_are_too_many() -> None:
    many = [a_fault(3, f"8{number:07}", FaultLevel.SUB_HEALTH) for number in range(40)]
    found = codes(world(*many, a_fault()), target())
    assert len(found) == MAX_FAULTS
    assert found[0] == "80E18402@3"


def test_figures_are_shortened() -> None:
    fault = Fault(fault_id("X", 3), "X", 3, FaultLevel.SEPARATE_NPU, T0.wall, True, evidence={"text": "x" * 5000})
    (one,) = evidence_of(world(fault).snapshot(), ["a"], [target()])
    assert len(one.detail) == MAX_DETAIL


def test_it_is_written_with_the_claim() -> None:
    made = world_of([*(node(name) for name in "abcd"), *job_with_pods("j", ("a", "b"))])
    hear(made, *(report(name) for name in "bcd"), report("a", a_fault(), chips=(CHIP,)))
    decided = decide(made)
    (opened,) = [action for action in decided.actions if isinstance(action, OpenRecovery)]
    taint = {"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}
    fold.observe(made, "Node", "set", {**node("a"), "spec": {"taints": [taint]}})
    body = {
        "kind": "Recovery",
        "metadata": {"name": opened.name, "namespace": "ml", "uid": "r"},
        "spec": msgspec.to_builtins(opened.spec),
        "status": msgspec.to_builtins(opened.status),
    }
    fold.observe(made, "Recovery", "set", body)
    decide(made, after(1))
    (claim,) = [action for action in decide(made, after(2)).actions if isinstance(action, Claim)]
    assert [(one.node, one.chip, one.die) for one in claim.spec.evidence] == [("a", 3, "DIE-3")]
