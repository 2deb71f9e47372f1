"""A StormService role without PodSets: its RoleSet replaces a failed pod within milliseconds, the warden only tells."""

from console.lab.cluster.workloads import storm_service
from tests.integration.rig import Object, Rig, uids
from tests.waiting import wait_until


def told(rig: Rig) -> list[Object]:
    events = rig.api.get(f"/api/v1/namespaces/{rig.namespace}/events")["items"]
    return [event for event in events if event["reason"] == "PodReplacedByItsController"]


def test_a_failed_pod_of_a_role_set_is_told_of_and_costs_nothing(led: Rig) -> None:
    led.add_nodes(3)
    roles = {"router": (2, 1)}
    service = storm_service("chat", roles, namespace=led.namespace, node_selector={"test": led.namespace})
    led.apply(service)
    old = led.running("chat", 2)
    broken = next(iter(old))

    path = f"/api/v1/namespaces/{led.namespace}/pods/{broken}/status"
    led.api.merge_patch(path, {"status": {"phase": "Failed"}})

    wait_until("the Event", lambda: told(led))
    kept = uids(old).items() - {(broken, old[broken]["metadata"]["uid"])}
    wait_until("the failed pod is replaced", lambda: uids(led.pods("chat")).items() & uids(old).items() == kept)
    led.running("chat", 2)
    assert [event["involvedObject"]["kind"] for event in told(led)] == ["StormService"]
    assert led.recoveries() == []
