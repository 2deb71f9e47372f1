"""A machine loses power: its node is dead by NotReady alone, what hangs there is forced, the instance comes back."""

from tests.cluster.objects import condition
from tests.integration.checks import deleted_uids, home, renewed
from tests.integration.policies import rules
from tests.integration.rig import DECODE, PREFILL, Rig, homes, terminating, uids
from tests.waiting import wait_until

MASTER = f"{PREFILL}-master-0"
LEASE_LOST_S = 40


def test_pods_that_hang_on_a_dead_node_are_forced_and_come_back_elsewhere(led: Rig) -> None:
    old, decode = led.mindie_pair()
    dead = home(old[MASTER])
    path = f"/api/v1/namespaces/{led.namespace}/pods/{MASTER}"

    with rules(led, detect={"not_ready_after_s": 1}):
        led.plane.kill_node(dead)
        led.api.delete(path)  # by a person: without a kubelet it hangs for ever, and holds its name
        wait_until("the node is seen dead", lambda: condition(led.node(dead), "Ready") == "Unknown", LEASE_LOST_S)
        new = renewed(led, PREFILL, old)
        recovery = led.recovered()

    assert dead not in homes(new)
    assert recovery["spec"]["cause"]["kind"] == "Node"
    taint = led.taint(dead)
    assert taint is not None
    assert taint["value"] == "NodeDead"
    assert deleted_uids(led) == set(uids(old).values())
    forced = led.journal.wait("the force", "Pod", MASTER, lambda pod: terminating(pod) and given(pod) == 0)
    assert forced.object["metadata"]["uid"] == uids(old)[MASTER]
    assert uids(led.running(DECODE, 2)) == uids(decode)


def given(pod: dict[str, dict[str, int]]) -> int | None:
    return pod["metadata"].get("deletionGracePeriodSeconds")
