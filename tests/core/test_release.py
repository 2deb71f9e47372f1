"""A person's release: at once, lasting while the forgiven faults stay open, and no longer than that."""

from __future__ import annotations

from console.scenario.virtual import VirtualCluster, fault
from shared.model import FaultLevel
from shared.names import ISOLATE_ANNOTATION, ISOLATION_ANNOTATION, OFFERED_ANNOTATION, RELEASE_ANNOTATION
from tests.core.build import job_with_pods, node

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
WORSE = fault(4, "80E18402", FaultLevel.SEPARATE_NPU)


def cluster() -> VirtualCluster:
    result = VirtualCluster([*(node(name) for name in "abcd"), *job_with_pods("j", ("c", "d"))])
    result.run_until(10)
    return result


def notes_of(lab: VirtualCluster) -> set[str]:
    found = lab.store.get("nodes", "", "a")
    assert found is not None
    return set(found["metadata"].get("annotations", {})) - {OFFERED_ANNOTATION}


def test_a_release_lifts_a_taint_whose_fault_is_open_and_is_consumed() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.release("a")
    lab.run_until(500)
    assert lab.tainted == {}
    assert notes_of(lab) == {ISOLATION_ANNOTATION}


def test_a_new_fault_isolates_a_released_node_again() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.release("a")
    lab.run_until(30)
    lab.report("a", [BAD, WORSE])
    lab.run_until(40)
    assert lab.tainted == {"a": "NoSchedule"}


def test_a_forgiven_fault_that_has_gone_and_come_back_isolates_again() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.release("a")
    lab.run_until(30)
    lab.report("a", [])
    lab.run_until(40)
    assert notes_of(lab) == set()
    lab.report("a", [BAD])
    lab.run_until(50)
    assert lab.tainted == {"a": "NoSchedule"}


def test_a_new_leader_keeps_a_release() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.release("a")
    lab.run_until(30)
    lab.restart_reconciler()
    lab.run_until(200)
    assert lab.tainted == {}


def test_isolation_by_hand_ends_by_hand_at_once() -> None:
    lab = cluster()
    lab.isolate("a")
    lab.run_until(12)
    assert lab.tainted == {"a": "NoSchedule"}
    assert ISOLATE_ANNOTATION in notes_of(lab)
    lab.release("a")
    lab.run_until(14)
    assert lab.tainted == {}
    assert notes_of(lab) & {ISOLATE_ANNOTATION, RELEASE_ANNOTATION} == set()


def test_pause_never_blocks_a_release() -> None:
    lab = cluster()
    lab.report("a", [BAD])
    lab.run_until(20)
    lab.pause("network work")
    lab.release("a")
    lab.run_until(22)
    assert lab.tainted == {}


def test_a_dead_node_is_given_back_too_until_it_has_been_well_and_dies_again() -> None:
    lab = cluster()
    lab.set_ready("a", "Unknown")
    lab.run_until(80)
    assert lab.tainted == {"a": "NoSchedule"}
    lab.release("a")
    lab.run_until(83)
    assert lab.tainted == {}
    lab.restart_reconciler()
    lab.release("a")  # once more changes nothing
    lab.run_until(300)
    assert lab.tainted == {}
    lab.set_ready("a", "True")
    lab.run_until(320)
    assert notes_of(lab) == set()
    lab.set_ready("a", "Unknown")
    lab.run_until(400)
    assert lab.tainted == {"a": "NoSchedule"}


def test_the_pods_of_a_dead_node_that_was_released_stay_like_those_of_a_forgiven_fault() -> None:
    lab = VirtualCluster([*(node(name) for name in "abcd"), *job_with_pods("j", ("a", "b"))])
    lab.run_until(10)
    lab.pause("look first")
    lab.set_ready("a", "Unknown")
    lab.run_until(80)
    lab.release("a")
    lab.run_until(85)
    lab.pause(None)
    lab.run_until(300)
    assert lab.deleted == {}
    assert lab.recoveries == []
