"""The kinds the lab cluster serves, as one table, and how a REST path names one of them.

Sources: the Kubernetes API reference and the CustomResourceDefinitions of MindCluster, Volcano,
AIBrix, LeaderWorkerSet and OME.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from console.lab.cluster.problems import bad_request, not_found_path

CORE = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind. ``status``: it has a status subresource; other writes leave ``.status`` alone."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``, as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def built_in(self) -> bool:
        """Compiled into the API server; everything else is a custom resource, which a few rules treat differently."""
        return built_in(self.group)

    @property
    def qualified(self) -> str:
        """``pods`` or ``ascendjobs.mindxdl.gitee.com``, as messages and CustomResourceDefinitions name the kind."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The REST path of the collection, of one object, or of its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


def built_in(group: str) -> bool:
    """Whether an API group is compiled into the API server."""
    return "." not in group or group.endswith(".k8s.io")


NODES = Resource(CORE, "v1", "nodes", "Node", namespaced=False, status=True)
NAMESPACES = Resource(CORE, "v1", "namespaces", "Namespace", namespaced=False, status=True)
PODS = Resource(CORE, "v1", "pods", "Pod", status=True)
CONFIGMAPS = Resource(CORE, "v1", "configmaps", "ConfigMap")
PODGROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", status=True)
ASCENDJOBS = Resource("mindxdl.gitee.com", "v1", "ascendjobs", "AscendJob", status=True)
STORMSERVICES = Resource("orchestration.aibrix.ai", "v1alpha1", "stormservices", "StormService", status=True)
ROLESETS = Resource("orchestration.aibrix.ai", "v1alpha1", "rolesets", "RoleSet", status=True)
PODSETS = Resource("orchestration.aibrix.ai", "v1alpha1", "podsets", "PodSet", status=True)
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet", status=True)
INFERSERVICESETS = Resource("mindcluster.huawei.com", "v1", "inferservicesets", "InferServiceSet", status=True)
INFERSERVICES = Resource("mindcluster.huawei.com", "v1", "inferservices", "InferService", status=True)
INSTANCESETS = Resource("mindcluster.huawei.com", "v1", "instancesets", "InstanceSet", status=True)
LEADERWORKERSETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", status=True)
VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", status=True)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, True)

RESOURCES: tuple[Resource, ...] = (
    NODES,
    NAMESPACES,
    PODS,
    CONFIGMAPS,
    Resource(CORE, "v1", "events", "Event"),
    Resource(CORE, "v1", "services", "Service", status=True),
    Resource(CORE, "v1", "secrets", "Secret"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", status=True),
    Resource("apps", "v1", "deployments", "Deployment", status=True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", status=True),
    STATEFULSETS,
    Resource("apps", "v1", "daemonsets", "DaemonSet", status=True),
    CRDS,
    PODGROUPS,
    ASCENDJOBS,
    STORMSERVICES,
    ROLESETS,
    PODSETS,
    Resource("npuwarden.io", "v1alpha1", "recoveries", "Recovery"),
    LEADERWORKERSETS,
    INFERSERVICESETS,
    INFERSERVICES,
    INSTANCESETS,
    Resource("ome.io", "v1beta1", "inferenceservices", "InferenceService", status=True),
    VOLCANO_JOBS,
)

BY_PLURAL = {resource.plural: resource for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class Target:
    """What a REST path names. ``name`` is empty for a collection, ``namespace`` for all or a cluster-wide kind."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str, served: Iterable[Resource]) -> Target:
    """The target of a REST path; a path that no served kind answers is the plain 404 of a missing API."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = CORE, parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise not_found_path()
    table = {r.plural: r for r in served if (r.group, r.version) == (group, version)}
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] in table:
        namespace, rest = rest[1], rest[2:]
    resource = table.get(rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise not_found_path()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        raise bad_request(f"{resource.plural} are namespaced: {path} names no namespace")
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "")
