"""Deployment and StatefulSet: only the pod on the broken chip restarts, its neighbours keep their UIDs."""

import pytest

from tests.cluster import objects
from tests.integration.checks import home, tainted_first
from tests.integration.reports import chip_fault, say
from tests.integration.rig import Object, Rig, homes, uids

NAME = "chat"


def workload(rig: Rig, kind: str) -> Object:
    """Two pods of a whole node each."""
    labels = {"app": NAME, "fault-scheduling": "force"}
    npus = {objects.NPU_RESOURCE: "8"}
    container = {"name": "engine", "image": "none", "resources": {"requests": npus, "limits": npus}}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeSelector": {"test": rig.namespace}}}
    head = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": NAME, "namespace": rig.namespace}}
    return {**head, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": NAME}}, "template": pod}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_only_the_pod_on_the_broken_chip_restarts(led: Rig, kind: str) -> None:
    led.add_nodes(3)
    led.apply(workload(led, kind))
    old = led.running(NAME, 2)
    hit = min(old)
    broken = home(old[hit])

    say(led, broken, chip_fault())
    recovery = led.recovered()

    new = led.running(NAME, 2)
    assert broken not in homes(new)
    assert set(uids(new).values()) & set(uids(old).values()) == set(uids(old).values()) - {uids(old)[hit]}
    assert (hit in new) == (kind == "StatefulSet"), "a StatefulSet gives the name again, a Deployment draws another"
    assert (recovery["spec"]["level"], recovery["spec"]["workload"]["kind"]) == ("Pod", kind)
    tainted_first(led, broken, {hit: old[hit]})
