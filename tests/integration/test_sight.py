"""What the warden does when it cannot see: a call that hangs, an agent that says nothing."""

import signal
from pathlib import Path

import pytest

from shared.names import CODE_MONITOR_BLIND, CONDITION
from tests.cluster.objects import condition
from tests.integration.daemons import Agent
from tests.integration.rig import HBM, PREFILL, Rig, our_taint, uids
from tests.waiting import wait_until

FIRST_MINUTE_S = 60


def dcmi_children(agent: Agent) -> list[str]:
    """Command lines of the children that ask the driver; the one that only listens for events is not one of them."""
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in agent.children]
    return [line for line in lines if "dcmi_worker" in line]


def test_a_hung_chip_is_unknown_keeps_its_fault_and_the_others_are_watched(led: Rig) -> None:
    led.add_nodes(1)
    (node,) = led.nodes
    agent = led.agent(node, settings={"poll": {"chips_s": 1}})
    agent.subscribed()
    led.host(node).occur(2, HBM)
    led.journal.wait("the taint", "Node", node, our_taint)

    led.host(node).hang(2)

    def blind() -> bool:
        faults = {fault.code for fault in led.reported(node).faults}
        return CODE_MONITOR_BLIND in faults

    wait_until("the node is blind", blind, 30)
    report = led.reported(node)
    assert f"{HBM}@2" in {fault.id for fault in report.faults}
    assert {one.chip for one in report.unknown} == {2}
    led.host(node).occur(6, HBM)
    wait_until("a fault of another chip", lambda: f"{HBM}@6" in {fault.id for fault in led.reported(node).faults})
    assert 1 <= len(dcmi_children(agent)) <= 2
    assert led.taint(node)


@pytest.mark.timeout(120)  # nobody is silent in a leader's first minute; run alone, this test waits for its end
def test_silence_of_an_agent_is_said_and_deletes_nothing(led: Rig) -> None:
    led.add_nodes(3)
    led.mindie(PREFILL)
    pods = led.running(PREFILL, 2)
    node = pods[f"{PREFILL}-master-0"]["spec"]["nodeName"]
    agent = led.agent(node)
    wait_until("it is heard", lambda: condition(led.node(node), CONDITION) == "True")
    agent.signal(signal.SIGSTOP)
    wait_until("it is missed", lambda: condition(led.node(node), CONDITION) == "Unknown", FIRST_MINUTE_S + 30)
    assert led.taint(node) is None
    assert led.recoveries() == []
    assert uids(led.running(PREFILL, 2)) == uids(pods)
    agent.signal(signal.SIGCONT)
    wait_until("it is heard again", lambda: condition(led.node(node), CONDITION) == "True", 30)


@pytest.mark.timeout(120)
def test_a_new_node_that_has_not_reported_yet_is_not_dead(led: Rig) -> None:
    """It registers NotReady, and its agent starts later: for a leader past its first minute as for any other."""
    assert led.leader is not None
    wait_until("the first minute is over", lambda: led.leader_age_s() > FIRST_MINUTE_S, FIRST_MINUTE_S + 10)
    led.add_nodes(1)
    (node,) = led.nodes
    wait_until("the reconciler has seen it", lambda: condition(led.node(node), CONDITION) == "True", 30)
    assert led.journal.first("Node", node, our_taint) is None
