"""A daemon or Redis dies in the middle of an episode: the end is the same, and nothing is restarted twice."""

import signal

import pytest

from tests.integration.rig import DECODE, HBM, PREFILL, Object, Rig, homes, our_taint, terminating, uids
from tests.waiting import wait_until

CRASH = 137
UP = "npuwarden_reconciler_redis_up"
POINTS = ["after-open", "after-taint", "after-claim", "after-first-delete", "after-deletes", "after-recreating"]


def home(pods: dict[str, Object]) -> str:
    node: str = pods[f"{PREFILL}-master-0"]["spec"]["nodeName"]
    return node


def restarted_once(rig: Rig, old: dict[str, Object], decode: dict[str, Object], broken: str) -> None:
    """Each pod has had one successor, which nobody touched, and the neighbour none."""
    new = rig.running(PREFILL, 2)
    assert broken not in homes(new)
    pods = rig.journal.of("Pod")
    made = {entry.object["metadata"]["uid"] for entry in pods if entry.change == "ADDED"}
    assert made == {*uids(old).values(), *uids(new).values(), *uids(decode).values()}
    ended = {entry.object["metadata"]["uid"] for entry in pods if terminating(entry.object)}
    assert ended == set(uids(old).values())
    assert uids(rig.running(DECODE, 2)) == uids(decode)
    assert rig.taint(broken)


@pytest.mark.parametrize("point", POINTS)
def test_a_standby_goes_on_from_wherever_the_leader_died(rig: Rig, point: str) -> None:
    first = rig.reconciler(crash_at=point)
    old, decode = rig.mindie_pair()
    broken = home(old)
    agent = rig.agent(broken)
    first.leads()
    standby = rig.reconciler()
    agent.subscribed()
    standby.wait_for("HTTP on port")

    rig.host(broken).occur(3, HBM)
    assert first.exit_code() == CRASH, first.tail()
    rig.forget_leader()

    recovery = rig.recovered()
    restarted_once(rig, old, decode, broken)
    assert recovery["status"]["holder"] in standby.said


def test_a_pod_replaced_between_decision_and_delete_survives(rig: Rig) -> None:
    first = rig.reconciler(crash_at="after-claim")
    old, decode = rig.mindie_pair()
    broken = home(old)
    rig.agent(broken).subscribed()
    first.leads()
    rig.host(broken).occur(3, HBM)
    assert first.exit_code() == CRASH, first.tail()
    assert uids(rig.pods(PREFILL)) == uids(old), "it died before the first delete"
    master = f"{PREFILL}-master-0"
    rig.api.delete(f"/api/v1/namespaces/{rig.namespace}/pods/{master}", {"gracePeriodSeconds": 0})
    replaced = rig.journal.wait(
        "the replacement",
        "Pod",
        master,
        lambda pod: pod["metadata"]["uid"] not in uids(old).values() and pod["spec"].get("nodeName"),
    ).object

    rig.forget_leader()
    rig.reconciler()
    rig.recovered()

    restarted_once(rig, old, decode, broken)
    assert uids(rig.running(PREFILL, 2))[master] == replaced["metadata"]["uid"]


def test_an_agent_killed_in_mid_episode_changes_nothing(rig: Rig) -> None:
    reconciler = rig.reconciler()
    old, decode = rig.mindie_pair()
    broken = home(old)
    agent = rig.agent(broken)
    agent.subscribed()
    reconciler.leads()

    rig.host(broken).occur(3, HBM)
    rig.journal.wait("the taint", "Node", broken, our_taint)
    session = rig.reported(broken).session
    agent.kill_hard()
    again = rig.agent(broken, start=False)
    again.wait_ready(lambda: rig.reported(broken).session != session, 40)
    rig.recovered()

    assert f"{HBM}@3" in {fault.id for fault in rig.reported(broken).faults}
    restarted_once(rig, old, decode, broken)


def test_a_replica_told_to_stop_in_mid_episode_hands_over(rig: Rig) -> None:
    first = rig.reconciler()
    old, decode = rig.mindie_pair()
    broken = home(old)
    rig.agent(broken).subscribed()
    first.leads()
    rig.reconciler().wait_for("HTTP on port")

    rig.host(broken).occur(3, HBM)
    rig.journal.wait("the taint", "Node", broken, our_taint)
    first.signal(signal.SIGTERM)
    assert first.exit_code(10) == 0, first.tail()

    rig.recovered()
    restarted_once(rig, old, decode, broken)


def test_a_fault_during_a_redis_outage_is_acted_on_once_afterwards(rig: Rig) -> None:
    reconciler = rig.reconciler()
    old, decode = rig.mindie_pair()
    broken = home(old)
    rig.agent(broken).subscribed()
    reconciler.leads()
    wait_until("reports are read", lambda: reconciler.metric(UP) == 1)

    rig.broker.stop()
    rig.host(broken).occur(3, HBM)
    wait_until("the outage is noticed", lambda: reconciler.metric(UP) == 0)
    assert rig.taint(broken) is None
    assert rig.recoveries() == []
    rig.broker.start()

    rig.recovered(30)
    restarted_once(rig, old, decode, broken)
