"""Pods that restart together under other controllers: a Volcano Job as a whole, one group of a LeaderWorkerSet."""

from console.lab.cluster.resources import LEADERWORKERSETS, VOLCANO_JOBS
from tests.cluster import objects
from tests.integration.checks import deleted_uids, home, renewed, tainted_first
from tests.integration.groups import GROUP
from tests.integration.reports import chip_fault, say
from tests.integration.rig import Object, Rig, homes, uids
from tests.waiting import wait_until

NAME = "llm"
FORCE = {"fault-scheduling": "force"}


def template(rig: Rig) -> Object:
    """A pod of a whole node."""
    npus = {objects.NPU_RESOURCE: "8"}
    container = {"name": "engine", "image": "none", "resources": {"requests": npus, "limits": npus}}
    spec = {"containers": [container], "nodeSelector": {"test": rig.namespace}}
    return {"metadata": {"labels": dict(FORCE)}, "spec": spec}


def test_a_volcano_job_restarts_as_a_whole(led: Rig) -> None:
    led.add_nodes(3)
    head = {"name": NAME, "namespace": led.namespace, "labels": FORCE}
    tasks = [{"name": name, "replicas": 1, "template": template(led)} for name in ("head", "rest")]
    job = {"apiVersion": VOLCANO_JOBS.api_version, "kind": VOLCANO_JOBS.kind, "metadata": head}
    led.apply({**job, "spec": {"minAvailable": 2, "tasks": tasks}})
    old = led.running(NAME, 2)
    broken = home(old[f"{NAME}-rest-0"])

    say(led, broken, chip_fault())
    recovery = led.recovered()

    new = renewed(led, NAME, old)
    assert broken not in homes(new)
    assert (recovery["spec"]["level"], recovery["spec"]["workload"]["kind"]) == ("Job", "Job")
    tainted_first(led, broken, old)


def group(rig: Rig, number: int) -> dict[str, Object]:
    pods = rig.pods(f"{NAME}-").items()
    return {name: pod for name, pod in pods if pod["metadata"]["labels"].get(GROUP) == str(number)}


def test_of_a_leader_worker_set_one_group_restarts(led: Rig) -> None:
    led.add_nodes(5)
    head = {"name": NAME, "namespace": led.namespace, "labels": FORCE}
    lws = {"apiVersion": LEADERWORKERSETS.api_version, "kind": LEADERWORKERSETS.kind, "metadata": head}
    led.apply({**lws, "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template(led)}}})
    led.running(f"{NAME}-", 4)
    wait_until("the groups", lambda: len(group(led, 0)) == len(group(led, 1)) == 2)
    old, other = group(led, 0), group(led, 1)
    broken = home(old[f"{NAME}-0-1"])

    say(led, broken, chip_fault())
    recovery = led.recovered()

    new = renewed(led, f"{NAME}-0", old)
    assert broken not in homes(new)
    assert uids(group(led, 1)) == uids(other), "the other group goes on"
    assert (recovery["spec"]["level"], recovery["spec"]["instance"]) == ("Instance", f"{NAME}-0")
    assert {target["uid"] for target in recovery["spec"]["targets"]} == set(uids(old).values())
    assert set(uids(old).values()) <= deleted_uids(led)
