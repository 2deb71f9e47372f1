"""Pods of an AscendJob fail: the job lives as long as its retries last, for its entry in the ledger stands in time."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.objects import condition
from tests.integration.journal import Journal
from tests.integration.rig import PREFILL, Object, Rig, terminating, uids
from tests.waiting import wait_until

VOLCANO = "volcano-system"
CONFIGMAPS = f"/api/v1/namespaces/{VOLCANO}/configmaps"
LEDGER = "vcjob-fault-npu-cm"
JOBS = "/apis/mindxdl.gitee.com/v1"
MASTER, WORKER = f"{PREFILL}-master-0", f"{PREFILL}-worker-0"


@pytest.fixture
def history(led: Rig) -> Iterator[Journal]:
    """What has become of the ledger, from before the test's jobs."""
    journal = Journal(led.api, {"ConfigMap": CONFIGMAPS})
    yield journal
    journal.close()


def key_of(job: Object) -> str:
    meta = job["metadata"]
    return f"{meta['namespace']}/{meta['name']}-{meta['uid']}"


def times_in(ledger: Object, job: Object) -> int | None:
    entry = json.loads(ledger["data"]["remain-retry-times"]).get(key_of(job))
    if entry is None:
        return None
    assert entry["UUID"] == job["metadata"]["uid"]
    return int(entry["Times"])


def the_job(rig: Rig) -> Object:
    job: Object = rig.api.get(f"{JOBS}/namespaces/{rig.namespace}/ascendjobs/{PREFILL}")
    return job


def fail(rig: Rig, name: str) -> None:
    """The pod's container has ended."""
    ended = {"name": "ascend", "restartCount": 0, "ready": False, "image": "none", "imageID": ""}
    status = {"phase": "Failed", "containerStatuses": [{**ended, "state": {"terminated": {"exitCode": 1}}}]}
    rig.api.merge_patch(f"/api/v1/namespaces/{rig.namespace}/pods/{name}/status", {"status": status})


def test_a_failed_pod_costs_a_retry_and_not_the_job(led: Rig, history: Journal) -> None:
    led.add_nodes(3)
    led.mindie(PREFILL)
    old = led.running(PREFILL, 2)
    job = the_job(led)

    entered = history.wait("the entry", "ConfigMap", LEDGER, lambda ledger: times_in(ledger, job) == 10)
    bound = [led.journal.wait("bound", "Pod", name, lambda pod: pod["spec"].get("nodeName")) for name in old]
    assert all(entered.version < one.version for one in bound), "no pod could run before its job's entry stood"

    fail(led, WORKER)
    recovery = led.recovered()

    assert (recovery["spec"]["cause"]["kind"], recovery["status"]["charged"]) == ("Software", 1)
    new = led.running(PREFILL, 2)
    assert not set(uids(new).values()) & set(uids(old).values())
    assert condition(the_job(led), "Failed") is None
    history.wait("the charge", "ConfigMap", LEDGER, lambda ledger: times_in(ledger, job) == 9)

    led.api.delete(f"{JOBS}/namespaces/{led.namespace}/ascendjobs/{PREFILL}")
    newest = history.of("ConfigMap", LEDGER)[-1].version
    history.wait(
        "the end of the entry",
        "ConfigMap",
        LEDGER,
        lambda ledger: int(ledger["metadata"]["resourceVersion"]) > newest and times_in(ledger, job) is None,
    )


def test_without_retries_left_a_failed_pod_is_the_end_and_nothing_is_deleted(led: Rig, history: Journal) -> None:
    led.add_nodes(3)
    led.mindie(PREFILL, labels={"fault-retry-times": "1"})
    led.running(PREFILL, 2)
    fail(led, MASTER)
    led.recovered()
    last, job = led.running(PREFILL, 2), the_job(led)
    history.wait("the last retry", "ConfigMap", LEDGER, lambda ledger: times_in(ledger, job) == 0)

    fail(led, MASTER)

    wait_until("the job ended", lambda: condition(the_job(led), "Failed") == "True")
    assert led.leader is not None
    words = {"owner-terminal", "retries-exhausted"}

    def said() -> bool:
        assert led.leader is not None
        verdicts = json.loads(led.leader.get(f"/v1/why?workload={led.namespace}/{PREFILL}"))["verdicts"]
        return bool(words & {verdict["reason"] for verdict in verdicts})

    wait_until("the end is said", said)
    assert uids(led.pods(PREFILL)) == uids(last)
    assert not [pod for pod in led.pods(PREFILL).values() if terminating(pod)]
    assert led.recoveries()[0]["status"]["phase"] == "Recovered"
