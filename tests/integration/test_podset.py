"""A pod of a PodSet fails: nobody else replaces it; the PodSet restarts for a retry, and with none left it stays so."""

from console.lab.cluster.workloads import storm_service
from tests.integration.checks import deleted_uids, ended, renewed
from tests.integration.rig import Object, Rig, uids


def fail(rig: Rig, name: str) -> None:
    rig.api.merge_patch(f"/api/v1/namespaces/{rig.namespace}/pods/{name}/status", {"status": {"phase": "Failed"}})


def pods_of(rig: Rig, role: str) -> dict[str, Object]:
    return rig.role(rig.running("storm", 4), role)


def test_a_failed_engine_restarts_its_podset_as_often_as_it_has_retries(led: Rig) -> None:
    led.add_nodes(4)
    retries = {"fault-retry-times": "1"}
    led.apply(storm_service("storm", namespace=led.namespace, labels=retries, node_selector={"test": led.namespace}))
    old, decode = pods_of(led, "prefill"), pods_of(led, "decode")
    prefix = min(old).rpartition("-")[0]

    fail(led, min(old))
    new = renewed(led, prefix, old)
    (recovery,) = ended(led, "Recovered")
    assert (recovery["spec"]["level"], recovery["status"]["charged"]) == ("Instance", 1)
    assert deleted_uids(led) == set(uids(old).values())

    fail(led, max(new))
    exhausted = next(one for one in ended(led, "Recovered", "Exhausted") if one["status"]["phase"] == "Exhausted")

    assert exhausted["status"]["reason"] == "retries-exhausted"
    assert uids(led.pods(prefix)) == uids(new), "it is left for a person to look at"
    assert uids(led.role(led.pods("storm"), "decode")) == uids(decode)
    assert deleted_uids(led) == set(uids(old).values())
