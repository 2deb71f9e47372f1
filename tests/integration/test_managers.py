"""MS Coordinator with pod-rescheduling on: one pod moves, the next fault waits for nothing, the job is the fallback.

The Coordinator has no NPUs: what hits it is a fault of the machine.
"""

import pytest

from console.lab.cluster.workloads import mindie_manager
from tests.integration.checks import deleted_uids, ended, home, renewed, unfinished
from tests.integration.policies import rules
from tests.integration.reports import node_fault, say
from tests.integration.rig import Object, Rig, homes, uids
from tests.waiting import wait_until

NAME = "coordinator"
MASTER, WORKER = f"{NAME}-master-0", f"{NAME}-worker-0"
NOBODY = "placed-by-the-test"
"""A scheduler that does not run."""


def coordinator(rig: Rig, **spec: object) -> None:
    """An active and a standby pod, never on one node."""
    job = mindie_manager(NAME, namespace=rig.namespace, node_selector={"test": rig.namespace})
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": NAME}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    for replica in job["spec"]["replicaSpecs"].values():
        template = replica["template"]
        replica["template"] = {**template, "spec": {**template["spec"], "affinity": affinity, **spec}}
    rig.apply(job)


def new_pod(rig: Rig, name: str, *, but: str = "") -> Object:
    """The pod of this name that nobody has bound, once it is there and another than this one."""

    def unbound() -> Object | None:
        pod = rig.pods(name).get(name)
        fresh = pod is not None and pod["metadata"]["uid"] != but and not pod["spec"].get("nodeName")
        return pod if fresh else None

    pod = wait_until(f"{name} waits for its place", unbound)
    assert pod is not None
    return pod


def place(rig: Rig, pod: Object, node: str) -> None:
    """Bind it, as a scheduler does."""
    head = {name: pod["metadata"][name] for name in ("name", "uid")}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": head, "target": target}
    rig.api.post(f"/api/v1/namespaces/{rig.namespace}/pods/{pod['metadata']['name']}/binding", binding)


def test_one_pod_moves_and_a_second_fault_right_after_moves_the_other(led: Rig) -> None:
    led.add_nodes(4)
    coordinator(led)
    old = led.running(NAME, 2)

    say(led, home(old[MASTER]), node_fault())
    moved = renewed(led, MASTER, {MASTER: old[MASTER]})
    assert uids(led.pods(WORKER)) == uids({WORKER: old[WORKER]}), "the standby goes on"
    say(led, home(old[WORKER]), node_fault())

    first, second = ended(led, "Recovered", "Recovered")
    new = led.running(NAME, 2)
    assert not set(uids(new).values()) & set(uids(old).values())
    assert uids(new)[MASTER] == uids(moved)[MASTER], "the one that has moved stays"
    assert not homes(new) & homes(old)
    assert (first["spec"]["level"], second["spec"]["level"]) == ("Pod", "Pod")
    assert deleted_uids(led) == set(uids(old).values())


@pytest.mark.parametrize("stuck", ["placeable but not bound", "bound but not Ready"])
def test_a_coordinator_that_does_not_come_back_takes_its_job_along(led: Rig, stuck: str) -> None:
    led.add_nodes(4)
    coordinator(led, schedulerName=NOBODY)
    first, second, third, unplayed = led.nodes
    place(led, new_pod(led, MASTER), first)
    place(led, new_pod(led, WORKER), second)
    old = led.running(NAME, 2)

    with rules(led, reschedule={"pod_bind_timeout_s": 2, "pod_ready_timeout_s": 2, "force_after_s": 2}):
        say(led, first, node_fault())
        moved = new_pod(led, MASTER, but=uids(old)[MASTER])
        if stuck == "bound but not Ready":
            led.plane.kill_node(unplayed)  # for a quarter of a minute it is Ready, and starts nothing
            place(led, moved, unplayed)
        escalated = unfinished(led, "Escalated")
        place(led, new_pod(led, MASTER, but=moved["metadata"]["uid"]), third)
        place(led, new_pod(led, WORKER, but=uids(old)[WORKER]), second)
        recoveries = ended(led, "Escalated", "Recovered")

    new = led.running(NAME, 2)
    assert not set(uids(new).values()) & set(uids(old).values())
    whole = next(one for one in recoveries if one["status"]["phase"] == "Recovered")
    assert whole["spec"]["level"] == "Job"
    assert whole["spec"]["escalatedFrom"] == escalated["metadata"]["name"]
    assert [target["pod"] for target in escalated["spec"]["targets"]] == [MASTER]
    assert {target["pod"] for target in whole["spec"]["targets"]} == {MASTER, WORKER}
