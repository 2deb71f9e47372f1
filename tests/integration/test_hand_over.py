"""An infer-operator instance on a real control plane: marked where the operator runs, deleted where it does not."""

from collections.abc import Iterator

import pytest

from console.lab.cluster.operators import infer_objects
from console.lab.cluster.operators.infer_operator import MARK
from console.lab.cluster.workloads import infer_service
from tests.integration.rig import HBM, Object, Rig, homes, our_taint, terminating, uids
from tests.waiting import wait_until

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{infer_objects.NAMESPACE}/deployments"
PREFILL, DECODE = "svc-0-prefill-0-", "svc-0-decode-0-"


def marked(pod: Object) -> bool:
    return MARK in (pod["metadata"].get("annotations") or {})


def serve(rig: Rig, *, operator: bool) -> tuple[dict[str, Object], dict[str, Object], str]:
    """Prefill and decode on four of five nodes: their pods, and the node of prefill's first pod."""
    rig.add_nodes(5)
    selector = {"test": rig.namespace}
    if operator:
        deployment = infer_objects.deployment()
        del deployment["status"]
        deployment["spec"]["template"]["spec"]["nodeSelector"] = selector
        if not rig.api.find(f"/api/v1/namespaces/{infer_objects.NAMESPACE}"):
            rig.api.post("/api/v1/namespaces", {"metadata": {"name": infer_objects.NAMESPACE}})
        rig.api.post(DEPLOYMENTS, deployment)
        path = f"{DEPLOYMENTS}/{infer_objects.NAME}"
        wait_until("the operator is available", lambda: rig.api.get(path).get("status", {}).get("availableReplicas"))
    rig.apply(infer_service("svc", namespace=rig.namespace, gang=False, node_selector=selector))
    prefill, decode = rig.running(PREFILL, 2), rig.running(DECODE, 2)
    return prefill, decode, prefill[f"{PREFILL}0"]["spec"]["nodeName"]


@pytest.fixture
def cleared(led: Rig) -> Iterator[None]:
    yield
    path = f"{DEPLOYMENTS}/{infer_objects.NAME}"
    if led.api.find(path):
        led.api.delete(path)
        wait_until("the operator's Deployment is gone", lambda: not led.api.find(path))


@pytest.mark.parametrize(("operator", "method"), [(True, "external-force"), (False, "force")])
def test_a_broken_chip_of_an_instance_is_handed_to_its_operator_or_restarted_here(
    led: Rig, cleared: None, operator: bool, method: str
) -> None:
    prefill, decode, broken = serve(led, operator=operator)
    led.agent(broken).subscribed()

    led.host(broken).occur(3, HBM)
    recovery = led.recovered(60)

    assert recovery["spec"]["method"] == method
    assert {target["uid"] for target in recovery["spec"]["targets"]} == set(uids(prefill).values())
    new = led.running(PREFILL, 2)
    assert not set(uids(new).values()) & set(uids(prefill).values())
    assert broken not in homes(new)
    assert uids(led.running(DECODE, 2)) == uids(decode)
    tainted = led.journal.wait("the taint", "Node", broken, our_taint)
    deleted = [led.journal.wait("the delete", "Pod", name, terminating) for name in prefill]
    assert all(tainted.version < one.version for one in deleted)
    marks = [entry for entry in led.journal.of("Pod") if marked(entry.object)]
    assert {entry.object["metadata"]["name"] for entry in marks} == ({f"{PREFILL}0"} if operator else set())
    if operator:
        assert tainted.version < marks[0].version < min(one.version for one in deleted)
