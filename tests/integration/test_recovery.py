"""The Recovery to its end on a real API server: proven by the rank table, told in Events, kept for a while."""

import functools
import json
from typing import Any

from console.lab.cluster.workloads import mindie_job, rings_config
from tests.integration.controllers import SILENT_PLUGIN
from tests.integration.reports import chip_fault, say
from tests.integration.rig import PREFILL, RECOVERIES, Object, Rig, homes
from tests.waiting import wait_until

KEPT = 20
"""Finished recoveries of a unit that stay."""


def rank_table(rig: Rig) -> Object:
    configmap = rig.api.get(f"/api/v1/namespaces/{rig.namespace}/configmaps/rings-config-{PREFILL}")
    table: Object = json.loads(configmap["data"]["hccl.json"])
    return table


def addresses(table: Object) -> set[str]:
    return {server["container_ip"] for server in table.get("server_list", [])}


def lists_all(rig: Rig) -> bool:
    """kwok may give a pod another address when it is written to: only the present ones count."""
    table = rank_table(rig)
    return table["status"] == "completed" and addresses(table) == {
        pod["status"]["podIP"] for pod in rig.pods(PREFILL).values()
    }


def events(rig: Rig, namespace: str, name: str) -> dict[str, int]:
    """By reason, how often each Event about an object of this name counts; two of one reason are an error."""
    selector = f"fieldSelector=involvedObject.name={name}"
    found = rig.api.get(f"/api/v1/namespaces/{namespace}/events?{selector}")["items"]
    ours = [event for event in found if event["source"].get("component") == "npu-warden"]
    assert len({event["reason"] for event in ours}) == len(ours), ours
    return {event["reason"]: event["count"] for event in ours}


def test_all_pods_ready_is_not_the_end_while_the_rank_table_lists_the_old_ones(led: Rig) -> None:
    led.add_nodes(3)
    job = mindie_job(PREFILL, namespace=led.namespace, node_selector={"test": led.namespace})
    led.apply(rings_config(job))
    led.apply(job)
    old = led.running(PREFILL, 2)
    wait_until("a complete rank table", lambda: lists_all(led))
    (spare,) = set(led.nodes) - homes(old)
    led.api.merge_patch(f"/api/v1/nodes/{spare}", {"metadata": {"labels": {SILENT_PLUGIN: "silent"}}})
    broken = old[f"{PREFILL}-master-0"]["spec"]["nodeName"]

    say(led, broken, chip_fault())

    waits = led.journal.wait(
        "the wait for the rank table", "Recovery", "", lambda seen: seen["status"].get("reason") == "rank-table"
    )
    led.running(PREFILL, 2)
    assert waits.object["status"]["phase"] == "Recreating"
    assert f"rings-config-{PREFILL}" in waits.object["status"]["message"]
    assert rank_table(led)["status"] == "initializing"
    assert len(addresses(rank_table(led))) == 2, "the operator leaves the old list"
    assert led.recoveries()[0]["status"]["phase"] == "Recreating"

    led.api.merge_patch(f"/api/v1/nodes/{spare}", {"metadata": {"labels": {SILENT_PLUGIN: None}}})
    waker = f"/api/v1/namespaces/{led.namespace}/pods/{PREFILL}-worker-0"

    def complete() -> bool:
        """The device plugin looks at a node when a pod changes."""
        led.api.merge_patch(waker, {"metadata": {"annotations": {"test/waker": str(len(led.journal.entries))}}})
        return lists_all(led)

    wait_until("a complete rank table", complete)
    recovery = led.recovered()
    assert not recovery["status"].get("conditions")
    assert recovery["status"]["duration"]
    told = wait_until("the Events", lambda: {**events(led, led.namespace, PREFILL)}.get("Recovered"))
    assert told == 1
    assert {"RecoveryStarted", "WaitingForRankTable"} <= events(led, led.namespace, PREFILL).keys()


def test_what_happens_again_counts_in_one_event(led: Rig) -> None:
    led.add_nodes(1)
    (node,) = led.nodes
    for times in (1, 2):
        say(led, node, chip_fault())
        wait_until("the taint", lambda: led.taint(node))
        say(led, node)
        wait_until("the node given back", lambda: not led.taint(node), 30)
        wait_until(f"Events that count {times}", functools.partial(counted, led, node, times))


def counted(rig: Rig, node: str, times: int) -> bool:
    return events(rig, "default", node) == {"NPUIsolated": times, "NPUReleased": times}


def test_the_leader_keeps_the_newest_recoveries_of_a_unit(led: Rig) -> None:
    led.mindie(PREFILL)  # its pods find no node: nothing but the journal is of interest
    job = led.api.get(f"/apis/mindxdl.gitee.com/v1/namespaces/{led.namespace}/ascendjobs/{PREFILL}")
    path = f"{RECOVERIES}/namespaces/{led.namespace}/recoveries"
    for number in range(KEPT + 3):
        led.api.post(path, finished(job, number))

    def names() -> list[str]:
        return sorted(recovery["metadata"]["name"] for recovery in led.recoveries())

    kept = [f"episode-{number:02}" for number in range(3, KEPT + 3)]
    wait_until("the newest are left", lambda: names() == kept)
    removed = [e.object["metadata"]["name"] for e in led.journal.of("Recovery") if e.change == "DELETED"]
    assert removed == ["episode-00", "episode-01", "episode-02"], "the oldest first"


def finished(job: Object, number: int) -> dict[str, Any]:
    workload = {key: job[key] for key in ("apiVersion", "kind")}
    workload |= {key: job["metadata"][key] for key in ("name", "uid")}
    unit = f"{job['metadata']['namespace']}/{PREFILL}"
    return {
        "apiVersion": "npuwarden.io/v1alpha1",
        "kind": "Recovery",
        "metadata": {"name": f"episode-{number:02}"},
        "spec": {
            "workload": workload,
            "unit": unit,
            "level": "Job",
            "method": "force",
            "cause": {"kind": "Software"},
            "history": {"of": unit, "recoveries": number, "charged": number},
        },
        "status": {"phase": "Recovered", "charged": 1},
    }
