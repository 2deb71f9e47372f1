"""A pause with an end: it holds until then, ends by itself, and a new leader knows it."""

from __future__ import annotations

from console.scenario.virtual import VirtualCluster, fault
from reconciler.core import clock
from shared.model import FaultLevel
from shared.names import CONTROL_CONFIGMAP, NAMESPACE
from tests.core.build import job_with_pods, node

BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)


def paused(until: str | None) -> VirtualCluster:
    lab = VirtualCluster([*(node(name) for name in "abcd"), *job_with_pods("j", ("a", "b"))])
    lab.run_until(10)
    data = {"paused": "upgrade", **({"paused_until": until} if until is not None else {})}
    metadata = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
    lab.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    lab.report("a", [BAD])
    lab.run_until(30)
    assert (lab.tainted, lab.deleted) == ({}, {})
    assert {hold.reason for hold in lab.why("a")} == {"paused"}
    return lab


def at(lab_s: float) -> str:
    return clock.seconds(VirtualCluster([]).clock.wall() + lab_s)


def test_it_ends_by_itself() -> None:
    lab = paused(at(60))
    lab.run_until(59)
    assert lab.tainted == {}
    lab.run_until(62)
    assert lab.tainted == {"a": "NoSchedule"}
    assert lab.deleted != {}


def test_a_new_leader_knows_when_it_ends() -> None:
    lab = paused(at(300))
    lab.restart_reconciler()
    lab.run_until(290)
    assert lab.tainted == {}
    lab.run_until(302)
    assert lab.tainted == {"a": "NoSchedule"}


def test_an_end_that_is_no_time_is_said_and_the_pause_lasts() -> None:
    lab = paused("tomorrow")
    lab.run_until(4000)
    assert lab.tainted == {}
    assert any("tomorrow" in hold.message for hold in lab.why("a"))
