"""One thing for what many nodes have in common: members, beginning, what is held, and its end."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster, fault
from reconciler.core import fold
from reconciler.core.actions import Incident
from reconciler.core.incidents import incident_events, told
from reconciler.core.policy import Breaker, CommonCause, Isolation, Policy
from shared.model import FaultLevel
from tests.core.build import node
from tests.core.worlds import T0, a_fault, decide, hear, report, world_of

RACK = "topology.kubernetes.io/rack"
BAD = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
POLICY = Policy(isolate=Isolation(hold_down_s=60, reboot_probation_s=0), breaker=Breaker(nodes="100%"))


def cluster(policy: Policy = POLICY) -> VirtualCluster:
    """Two racks of four, and a node without a label."""
    racks = {f"r{rack}-{i}": {RACK: f"r{rack}"} for rack in (1, 2) for i in range(4)}
    lab = VirtualCluster([*(node(name, labels=labels) for name, labels in racks.items()), node("alone")], policy=policy)
    lab.run_until(10)
    return lab


def found(lab: VirtualCluster) -> list[Incident]:
    return list(lab.warden.plan().incidents)


def test_nodes_of_one_domain_that_break_together_are_one_incident_until_the_last_is_given_back() -> None:
    lab = cluster()
    for name in ("r1-0", "r1-1", "r1-2"):
        lab.report(name, [BAD])
    lab.run_until(20)
    (one,) = found(lab)
    assert (one.kind, one.cause, one.members) == ("domain", f"{RACK}=r1", ("r1-0", "r1-1", "r1-2"))
    assert (one.since, one.held) == ("2026-01-01T01:00:10Z", ())
    lab.restart_reconciler()
    lab.run_until(30)
    assert found(lab) == [one], "the next leader sees the same one"
    lab.report("r1-0")
    lab.run_until(40)
    assert found(lab)[0].members == one.members, "healed, and not yet given back"
    lab.run_until(95)
    assert found(lab)[0].members == ("r1-1", "r1-2")
    lab.report("r1-1")
    lab.report("r1-2")
    lab.run_until(160)
    assert found(lab) == []


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"r1-0": 10}, id="one node"),
        pytest.param({"r1-0": 10, "alone": 10}, id="no common domain"),
        pytest.param({"r1-0": 10, "r2-0": 10}, id="two racks"),
        pytest.param({"r1-0": 10, "r1-1": 50}, id="40 s apart"),
    ],
)
def test_what_has_no_domain_or_no_time_in_common_is_no_incident(broken: dict[str, float]) -> None:
    lab = cluster()
    for name, at in broken.items():
        lab.run_until(at)
        lab.report(name, [BAD])
    lab.run_until(60)
    assert found(lab) == []


def test_a_persons_isolation_and_planned_work_are_no_incident() -> None:
    lab = cluster()
    lab.isolate("r1-0")
    lab.isolate("r1-1")
    for name in ("r2-0", "r2-1"):
        lab.merge(f"Node/{name}", {"spec": {"unschedulable": True}})
    lab.run_until(20)
    for name in ("r2-0", "r2-1"):
        lab.set_ready(name, "False")
        lab.silence(name)
    lab.run_until(120)
    assert len(lab.tainted) == 4
    assert found(lab) == []


def test_a_code_in_many_domains_is_an_incident_that_names_who_is_held() -> None:
    names = [f"n{i}" for i in range(8)]
    world = world_of([node(name) for name in names], policy=Policy(breaker=Breaker(nodes="100%")))
    hear(world, *(report(name, a_fault(), seq=1) for name in names))
    (one,) = decide(world).incidents
    assert (one.kind, one.cause) == ("code", a_fault().code)
    assert one.members == one.held == tuple(names)
    assert "the detector is suspected" in told(one)


def test_an_open_breaker_is_an_incident_of_those_it_counts_and_of_those_it_holds() -> None:
    lab = cluster(Policy(breaker=Breaker(nodes="3"), common_cause=CommonCause(nodes=1000)))
    for name in ("r1-0", "r1-1", "r2-0", "alone"):
        lab.report(name, [BAD])
        lab.run_until(lab.clock.t + 1)
    (breaker,) = [one for one in found(lab) if one.kind == "breaker"]
    assert breaker.members == ("r1-0", "r1-1", "r2-0")
    assert breaker.held == ("alone",)


def test_many_nodes_that_are_not_ready_are_one_incident() -> None:
    lab = cluster()
    for name in ("r1-0", "r1-1", "r2-0", "r2-1"):
        lab.set_ready(name, "False")
    lab.run_until(100)
    storm = [one for one in found(lab) if one.kind == "not-ready"]
    assert [one.members for one in storm] == [("r1-0", "r1-1", "r2-0", "r2-1")]


def test_a_domain_that_breaks_again_is_one_incident_with_the_members_of_both_times() -> None:
    """Its id is the domain's: two of one id would hide each other from the announcer and from who asks for one."""
    lab = cluster()
    for at, name in ((10, "r1-0"), (11, "r1-1"), (100, "r1-2"), (101, "r1-3")):
        lab.run_until(at)
        lab.report(name, [BAD])
    lab.run_until(110)
    (one,) = found(lab)
    assert one.members == ("r1-0", "r1-1", "r1-2", "r1-3")
    assert (one.since, "2 times" in one.why) == ("2026-01-01T01:00:10Z", True)


def test_a_storm_began_when_its_first_node_went_not_ready() -> None:
    lab = cluster()
    for name in ("r1-0", "r1-1", "r2-0", "r2-1"):
        lab.set_ready(name, "False")
    for at in (100, 200):
        lab.run_until(at)
        assert {one.since for one in found(lab)} == {"2026-01-01T01:00:10Z"}


def test_it_is_said_once_on_a_member_and_once_when_it_is_over() -> None:
    world = world_of([node("n1"), node("n2")])
    state = world.snapshot()
    one = Incident(
        "domain-1", "domain", "rack=r1", "2026-01-01T01:00:10Z", "2 nodes broke", ("gone", "n1", "n2"), ("n2",)
    )
    (begun, over) = incident_events(state, [one], [one], T0)
    assert (begun.body["reason"], begun.body["type"]) == ("Incident", "Warning")
    assert begun.body["involvedObject"]["name"] == over.body["involvedObject"]["name"] == "n1"
    assert "held: n2" in begun.body["message"]
    assert (over.body["reason"], over.body["type"]) == ("IncidentOver", "Normal")
    fold.observe(world, "Node", "gone", node("n1"))
    world.policy = Policy(observe_only=True)
    assert list(incident_events(world.snapshot(), [one], [], T0)) == []
