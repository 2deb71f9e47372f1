"""A chip breaks: the whole path from the driver's event to an instance that serves again, elsewhere."""

import json
from typing import Any

import pytest

from agent.sensors.kubelet import CHECKPOINT
from console.lab.cluster.workloads import storm_service
from shared.names import CONDITION, ISOLATION_ANNOTATION
from tests.cluster.objects import condition
from tests.integration.checks import home, serves_elsewhere, tainted_first
from tests.integration.controllers import SILENT_PLUGIN
from tests.integration.policies import rules
from tests.integration.rig import DECODE, HBM, PREFILL, Object, Rig, homes, our_taint, uids
from tests.waiting import wait_until

MASTER = f"{PREFILL}-master-0"


def test_a_broken_chip_costs_its_instance_one_restart_and_its_neighbour_nothing(led: Rig) -> None:
    old, decode = led.mindie_pair()
    broken = home(old[MASTER])
    led.agent(broken).subscribed()

    led.host(broken).occur(3, HBM)
    recovery = led.recovered()

    serves_elsewhere(led, PREFILL, old, broken)
    assert uids(led.running(DECODE, 2)) == uids(decode)
    taint = led.taint(broken)
    assert taint is not None
    assert (taint["value"], taint["effect"]) == ("SeparateNPU", "NoSchedule")
    assert {target["uid"] for target in recovery["spec"]["targets"]} == set(uids(old).values())
    tainted_first(led, broken, old)


@pytest.mark.parametrize("eyes", ["poll", "npu-smi"])
def test_without_events_polling_finds_it(led: Rig, eyes: str) -> None:
    old, decode = led.mindie_pair()
    broken = home(old[MASTER])
    led.host(broken).events(False)
    led.agent(broken, library=eyes == "poll", settings={"poll": {"chips_s": 1}})

    led.host(broken).occur(3, HBM, event=False)
    led.recovered()

    serves_elsewhere(led, PREFILL, old, broken)
    assert uids(led.running(DECODE, 2)) == uids(decode)
    tainted_first(led, broken, old)


def test_two_chips_of_one_instance_are_one_episode(led: Rig) -> None:
    old, decode = led.mindie_pair()
    led.add_nodes(1)
    nodes = sorted(homes(old))
    for node in nodes:
        led.agent(node).subscribed()

    # Two agents on a loaded machine may be a second apart.
    with rules(led, reschedule={"settle_s": 4}):
        for chip, node in enumerate(nodes):
            led.host(node).occur(chip, HBM)
        recovery = led.recovered()

    new = led.running(PREFILL, 2)
    assert not homes(new) & set(nodes)
    assert uids(led.running(DECODE, 2)) == uids(decode)
    assert len(recovery["spec"]["targets"]) == 2
    for node in nodes:
        assert led.taint(node), f"{node} is tainted as well"
        tainted_first(led, node, old)


@pytest.mark.parametrize(("size", "restarted"), [(2, "the PodSet"), (1, "the pod")], ids=["podset", "pod-rescheduling"])
def test_of_a_storm_service_only_the_unit_restarts(led: Rig, size: int, restarted: str) -> None:
    led.add_nodes(5)
    roles = {"prefill": (1, 2), "decode": (1, 2)} if size == 2 else {"prefill": (2, 1), "decode": (2, 1)}
    service = storm_service(
        "storm", roles, namespace=led.namespace, pod_rescheduling=size == 1, node_selector={"test": led.namespace}
    )
    led.apply(service)
    before = led.running("storm", 4)
    hit = min(led.role(before, "prefill"))
    broken = home(before[hit])
    old = led.role(before, "prefill") if size == 2 else {hit: before[hit]}
    led.agent(broken).subscribed()

    led.host(broken).occur(3, HBM)
    recovery = led.recovered()

    after = led.running("storm", 4)
    assert broken not in homes(after)
    kept = {name: uid for name, uid in uids(before).items() if name not in old}
    assert kept.items() <= uids(after).items(), f"only {restarted} restarts"
    assert recovery["spec"]["level"] == ("Instance" if size == 2 else "Pod")
    tainted_first(led, broken, old)


def checkpoint(pods: dict[str, Object], chips: dict[str, list[int]]) -> str:
    """The kubelet's record of the devices it has handed out, as it writes it."""
    entries = [
        {
            "PodUID": pods[name]["metadata"]["uid"],
            "ContainerName": "ascend",
            "ResourceName": "huawei.com/Ascend910",
            "DeviceIDs": {"-1": [f"Ascend910-{chip}" for chip in held]},
        }
        for name, held in chips.items()
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1})


def test_the_kubelets_checkpoint_tells_whose_chip_it_was(led: Rig) -> None:
    """Two instances share the nodes, no device plugin annotates: only the one on the broken chip restarts."""
    led.add_nodes(3, **{SILENT_PLUGIN: "silent"})
    led.mindie(PREFILL, npus=4)
    led.mindie(DECODE, "decode", npus=4)
    old, decode = led.running(PREFILL, 2), led.running(DECODE, 2)
    broken = next(iter(homes(old)))
    here = sorted(name for name, pod in {**old, **decode}.items() if home(pod) == broken)
    chips = {name: [number * 4 + chip for chip in range(4)] for number, name in enumerate(here)}
    agent = led.agent(broken)
    agent.subscribed()
    path = agent.kubelet_dir / CHECKPOINT
    path.parent.mkdir(parents=True)
    path.write_text(checkpoint({**old, **decode}, chips))
    held = {uid for uid, name in {uids({**old, **decode})[name]: name for name in here}.items()}
    wait_until(
        "the mapping is reported", lambda: {uid for chip in led.reported(broken).chips for uid in chip.pods} == held
    )
    victim = next(name for name in here if name in old)

    led.host(broken).occur(chips[victim][1], HBM)
    recovery = led.recovered()

    assert recovery["spec"]["workload"]["name"] == PREFILL
    serves_elsewhere(led, PREFILL, old, broken)
    assert uids(led.running(DECODE, 2)) == uids(decode)
    tainted_first(led, broken, old)


def test_a_healed_node_is_given_back_after_the_hold_down(led: Rig) -> None:
    led.add_nodes(1)
    (node,) = led.nodes
    led.agent(node).subscribed()
    led.host(node).occur(3, HBM)
    led.journal.wait("the taint", "Node", node, our_taint)
    led.journal.wait("the condition", "Node", node, lambda seen: condition(seen, CONDITION) == "False")

    led.host(node).recover(3, HBM)

    def released() -> Any:
        seen = led.node(node)
        annotations = seen["metadata"].get("annotations") or {}
        return our_taint(seen) is None and ISOLATION_ANNOTATION not in annotations

    wait_until("the release", released)
    wait_until("the condition is True", lambda: condition(led.node(node), CONDITION) == "True")
