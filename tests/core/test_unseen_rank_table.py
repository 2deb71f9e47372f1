"""A job whose rank table cannot be seen: its recovery ends all the same, and says that nothing was verified."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from shared.model import FaultLevel
from tests.core.build import Object, ascend_job, job_with_pods, node, pod

SPARES = ("x", "y")


def rings(labels: dict[str, str]) -> Object:
    """As a user has made it with the job; nobody has filled it."""
    metadata = {"name": "rings-config-j", "namespace": "ml", "uid": "uid-rings", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hccl.json": "{}"}}


def without_npus() -> list[Object]:
    job = ascend_job("j", replicas=1)
    return [job, pod("j-master-0", "a", job, labels={"version": "0"}, chips=())]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (job_with_pods("j", ("a", "b")), ["RankTableUnseen"]),
        ([*job_with_pods("j", ("a", "b")), rings({"other": "j"})], ["RankTableUnseen"]),
        ([*job_with_pods("j", ("a", "b")), rings({"jobID": "j"})], ["RankTableUnverified", "RankTableUnlabelled"]),
        (without_npus(), []),
    ],
    ids=["no ConfigMap", "one without the label", "one that nobody fills", "a job without NPUs"],
)
def test_a_recovery_says_what_could_not_be_verified(objects: list[Object], said: list[str]) -> None:
    nodes = [node(name) for name in ("a", "b", *SPARES)]
    virtual = VirtualCluster([*nodes, *objects], recreate=Recreate(nodes=SPARES))
    virtual.run_until(1)
    virtual.report("a", [fault("node", "NW-DISK", FaultLevel.SEPARATE_NPU)])
    virtual.run_until(120)
    (recovery,) = virtual.recoveries
    assert recovery["status"]["phase"] == "Recovered"
    conditions = recovery["status"].get("conditions") or []
    assert [condition["type"] for condition in conditions] == said
    for condition in conditions:
        assert "rings-config-j" in condition["message"]
        assert condition["reason"]
