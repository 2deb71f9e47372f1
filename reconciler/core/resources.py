"""Which Kubernetes resources are listed and watched, and how their paths are built.

One row per kind: a new workload kind is one row here and one plugin in reconciler/workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.names import CONTROL_CONFIGMAP, NAMESPACE, SEPARATED_CONFIGMAP


@dataclass(frozen=True, slots=True)
class Resource:
    """optional: a cluster without this kind is a normal cluster. name: only this one object, in `namespace`.

    label: only objects that carry this label, whatever its value.
    """

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    optional: bool = False
    namespace: str | None = None
    name: str | None = None
    label: str | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection(self, namespace: str | None = None) -> str:
        """Path of the list: of one namespace, or of all."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.base}{scope}/{self.plural}"

    def shows(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a list or watch of this row shows an object of its collection."""
        here = self.namespace in (None, namespace) and self.name in (None, name)
        return here and (self.label is None or self.label in labels)

    def path(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace if self.namespaced else None)}/{name}"


NODE = Resource("Node", "", "v1", "nodes", namespaced=False)
POD = Resource("Pod", "", "v1", "pods")
EVENT = Resource("Event", "", "v1", "events")
CONTROL = Resource("ConfigMap", "", "v1", "configmaps", namespace=NAMESPACE, name=CONTROL_CONFIGMAP)
RECOVERY = Resource("Recovery", "npuwarden.io", "v1alpha1", "recoveries")
POD_GROUP = Resource("PodGroup", "scheduling.volcano.sh", "v1beta1", "podgroups", optional=True)

SCHEDULER_CONFIG = Resource(
    # A kind of its own for us: of all ConfigMaps this one says whether MindCluster's scheduler plugin reschedules.
    "VolcanoSchedulerConfig",
    "",
    "v1",
    "configmaps",
    optional=True,
    namespace="volcano-system",
    name="volcano-scheduler-configmap",
)

RINGS_CONFIG = Resource(
    # Again a kind of its own: rank tables. `jobID` is on those of MindIE instances, ClusterD groups by it. The label
    # `mx-consumer-cim` would bring the device plugin's and NodeD's ConfigMap of every node with each of its changes.
    "RingsConfig",
    "",
    "v1",
    "configmaps",
    optional=True,
    label="jobID",
)

RETRY_LEDGER = Resource(
    # A kind of its own too: ascend-operator asks this ConfigMap before a failed pod ends its job.
    "RetryLedger",
    "",
    "v1",
    "configmaps",
    optional=True,
    namespace="volcano-system",
    name="vcjob-fault-npu-cm",
)

SEPARATED = Resource(
    # A kind of its own too: dies that stay separated whatever their agent remembers.
    "SeparatedDies",
    "",
    "v1",
    "configmaps",
    namespace=NAMESPACE,
    name=SEPARATED_CONFIGMAP,
)

CLUSTERD = Resource(
    # A kind of its own for us: where this Service stands, ClusterD makes and serves the global rank tables.
    "ClusterDService",
    "",
    "v1",
    "services",
    optional=True,
    namespace="mindx-dl",
    name="clusterd-grpc-svc",
)

OWNERS = (
    Resource("AscendJob", "mindxdl.gitee.com", "v1", "ascendjobs", optional=True),
    Resource("StormService", "orchestration.aibrix.ai", "v1alpha1", "stormservices", optional=True),
    Resource("RoleSet", "orchestration.aibrix.ai", "v1alpha1", "rolesets", optional=True),
    Resource("PodSet", "orchestration.aibrix.ai", "v1alpha1", "podsets", optional=True),
    Resource("Deployment", "apps", "v1", "deployments", optional=True),
    Resource("ReplicaSet", "apps", "v1", "replicasets", optional=True),
    Resource("StatefulSet", "apps", "v1", "statefulsets", optional=True),
    Resource("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", optional=True),
    Resource("InferServiceSet", "mindcluster.huawei.com", "v1", "inferservicesets", optional=True),
    Resource("InferService", "mindcluster.huawei.com", "v1", "inferservices", optional=True),
    Resource("InstanceSet", "mindcluster.huawei.com", "v1", "instancesets", optional=True),
    Resource("InferenceService", "ome.io", "v1beta1", "inferenceservices", optional=True),
    Resource("Job", "batch.volcano.sh", "v1alpha1", "jobs", optional=True),
)

WATCHED = (
    *(NODE, POD, RECOVERY, CONTROL, SEPARATED, SCHEDULER_CONFIG, RETRY_LEDGER, RINGS_CONFIG, CLUSTERD, POD_GROUP),
    *OWNERS,
)

_BY_KIND = {(r.api_version, r.kind): r for r in (*WATCHED, EVENT)}


def resource_of(api_version: str, kind: str) -> Resource | None:
    """The row of a kind, None for a kind that we do not know."""
    return _BY_KIND.get((api_version, kind))
