"""A Deployment's pods never come back under their names; their retries are used up all the same."""

from tests.integration.rig import Object, Rig, terminating
from tests.waiting import wait_until

NAME = "web"


def deployment(rig: Rig) -> Object:
    """One pod of one NPU that may restart once."""
    labels = {"app": NAME, "fault-scheduling": "force", "fault-retry-times": "1"}
    npus = {"huawei.com/Ascend910": "1"}
    container = {"name": "engine", "image": "none", "resources": {"requests": npus, "limits": npus}}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeSelector": {"test": rig.namespace}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": NAME}}, "template": pod}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "namespace": rig.namespace}}
    return {**head, "spec": spec}


def the_pod(rig: Rig, *, but: str = "") -> Object:
    """The one pod that serves, once it is another than this."""

    def look() -> Object | None:
        pods = [p for p in rig.pods(NAME).values() if p["status"].get("phase") == "Running" and not terminating(p)]
        return pods[0] if len(pods) == 1 and pods[0]["metadata"]["uid"] != but else None

    found = wait_until("a pod serves", look, 20)
    assert found is not None
    return found


def fail(rig: Rig, pod: Object) -> None:
    path = f"/api/v1/namespaces/{rig.namespace}/pods/{pod['metadata']['name']}/status"
    rig.api.merge_patch(path, {"status": {"phase": "Failed"}})


def phases(rig: Rig) -> list[str]:
    return [recovery["status"]["phase"] for recovery in rig.recoveries()]


def test_the_second_failure_finds_the_only_retry_used_under_another_name(led: Rig) -> None:
    led.add_nodes(2)
    led.apply(deployment(led))
    first = the_pod(led)
    fail(led, first)
    wait_until("the first recovery ended", lambda: phases(led) == ["Recovered"], 25)
    second = the_pod(led, but=first["metadata"]["uid"])
    assert second["metadata"]["name"] != first["metadata"]["name"]

    fail(led, second)
    wait_until("the retries are used up", lambda: sorted(phases(led)) == ["Exhausted", "Recovered"], 25)

    recoveries = {one["status"]["phase"]: one for one in led.recoveries()}
    assert recoveries["Recovered"]["status"]["charged"] == 1
    assert recoveries["Exhausted"]["status"]["reason"] == "retries-exhausted"
    assert second["metadata"]["name"] in led.pods(NAME), "it is left for a person to look at"
