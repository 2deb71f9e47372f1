"""What runs in the lab: a MindIE prefill and decode instance and an AIBrix StormService, two chips a pod.

Small pods on purpose: with one node of four tainted, every instance still finds room elsewhere.
"""

from __future__ import annotations

from typing import Any

from console.lab.cluster.lab import LabCluster
from console.lab.cluster.workloads import mindie_job, rings_config, storm_service

Object = dict[str, Any]

NPUS_A_POD = 2
PODS = 8
"""Two a MindIE job, two a PodSet of the StormService."""
MINDIE, AIBRIX = "mindie", "aibrix"
PREFILL, DECODE, STORM = "prefill-0", "decode-0", "storm"


def apply(cluster: LabCluster) -> None:
    """Create them as a user does."""
    prefill = mindie_job(PREFILL, "prefill", namespace=MINDIE, npus=NPUS_A_POD)
    decode = mindie_job(DECODE, "decode", namespace=MINDIE, npus=NPUS_A_POD)
    for job in (prefill, decode):
        cluster.apply(rings_config(job))  # first: the operator does not fill one that comes after the pods
        cluster.apply(job)
    cluster.apply(storm_service(STORM, namespace=AIBRIX, npus=NPUS_A_POD))


def instance(pod: Object) -> str:
    """The instance a pod belongs to, as people name it: `mindie/prefill-0`, `aibrix/storm decode`."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    if job := labels.get("job-name"):
        return f"{namespace}/{job}"
    return f"{namespace}/{labels.get('storm-service-name', '?')} {labels.get('role-name', '?')}"


def ready(pod: Object) -> bool:
    """Running, with every container ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
