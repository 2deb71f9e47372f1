"""No node is left for a broken instance: it is restarted once, says what is missing, and ends its wait by itself."""

from tests.integration.checks import deleted_uids, renewed, unfinished
from tests.integration.reports import chip_fault, say
from tests.integration.rig import DECODE, PREFILL, Rig, homes, uids

MASTER = f"{PREFILL}-master-0"


def test_a_dead_instance_waits_for_room_until_its_node_is_given_back(led: Rig) -> None:
    led.add_nodes(4)
    led.mindie(PREFILL)
    led.mindie(DECODE, "decode")
    old, decode = led.running(PREFILL, 2), led.running(DECODE, 2)
    broken = old[MASTER]["spec"]["nodeName"]

    say(led, broken, chip_fault())
    waits = unfinished(led, "WaitingForCapacity")
    assert waits["status"]["reason"] == "capacity"
    assert "the next needs 8 huawei.com/Ascend910" in waits["status"]["message"]
    assert deleted_uids(led) == set(uids(old).values())
    placed = [pod for pod in led.pods(PREFILL).values() if pod["spec"].get("nodeName")]
    assert broken not in homes({pod["metadata"]["name"]: pod for pod in placed})

    say(led, broken)
    new = renewed(led, PREFILL, old)
    assert homes(new) == homes(old)
    assert led.recovered()["metadata"]["uid"] == waits["metadata"]["uid"]
    assert uids(led.running(DECODE, 2)) == uids(decode)
    assert deleted_uids(led) == set(uids(old).values()), "each pod was deleted once"
