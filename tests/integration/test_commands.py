"""A failed pod has its node's chips looked at, long before the next poll: the whole way from pod to report."""

from shared.names import commands_stream, report_key
from tests.integration.rig import HBM, PREFILL, Rig
from tests.waiting import wait_until

SENT = "npuwarden_reconciler_commands_total"


def test_a_failed_pod_has_the_chips_of_its_node_looked_at(led: Rig) -> None:
    assert led.leader is not None
    pods, _ = led.mindie_pair()
    pod = pods[f"{PREFILL}-master-0"]
    node = pod["spec"]["nodeName"]
    led.agent(node, settings={"poll": {"chips_s": 600}}).subscribed()
    wait_until("its first look is over", lambda: led.redis.get(report_key(node)) is not None)
    assert {chip.health for chip in led.reported(node).chips} == {"ok"}
    led.host(node).occur(3, HBM, event=False)
    assert not led.reported(node).faults
    before = led.leader.metric(SENT, kind="reread", result="sent")
    path = f"/api/v1/namespaces/{led.namespace}/pods/{pod['metadata']['name']}/status"
    led.api.merge_patch(path, {"status": {"phase": "Failed"}})
    wait_until("its chips are looked at", lambda: [fault.code for fault in led.reported(node).faults] == [HBM])
    leader = led.leader
    wait_until("it was asked for", lambda: leader.metric(SENT, kind="reread", result="sent") > before)
    wait_until("the node's taint", lambda: led.taint(node))
    assert led.redis.ttl(commands_stream(node)) > 0
