"""What each MindIE Motor service's global rank table must say now, or why it cannot be said. Pure.

A service is the AscendJobs of one namespace with one label `jobID`: coordinators, controllers and server instances. A
table is whole or not at all: the reader takes it as the truth and would drop what it does not list.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from reconciler.core.objects import Owner, Pod
from reconciler.core.ranktable import DEPLOY_SERVER_LABELS, OWNER_KIND
from reconciler.core.ranktable import PREFIX as RINGS
from reconciler.ranktable import schema
from reconciler.ranktable.checks import refused
from reconciler.ranktable.instances import Instance, instance_of
from reconciler.ranktable.schema import GlobalTable, Group, GroupIds, Server
from reconciler.workloads.ascendjob import replicas

if TYPE_CHECKING:
    from reconciler.core.state import State

COORDINATOR, CONTROLLER, SERVER = "mindie-ms-coordinator", "mindie-ms-controller", "mindie-ms-server"
JOB_ID = "jobID"
_BY_GROUP, _BY_SERVER = DEPLOY_SERVER_LABELS
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A DNS-1123 subdomain. The value of a label may have capitals and `_`, the name of a ConfigMap may not."""


@dataclass(frozen=True, slots=True)
class Service:
    """table: None = nothing is to be published now, `why` says it. left_out: jobs that cannot be listed, and why.

    managers: the jobs of controllers and coordinators, whose end is the service's.
    """

    namespace: str
    job_id: str
    managers: tuple[Owner, ...]
    table: GlobalTable | None
    why: str = ""
    groups: GroupIds = field(default_factory=GroupIds)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def configmap(self) -> str:
        return f"{schema.PREFIX}{self.job_id}"

    @property
    def key(self) -> str:
        """Of its ConfigMap: `namespace/name`."""
        return f"{self.namespace}/{self.configmap}"


def serves(state: State) -> bool:
    """Whether tables are built here: ClusterD does it where its Service stands, unless the policy says otherwise."""
    wish = state.policy.ranktable.serve
    return wish == "on" or (wish == "auto" and not state.clusterd)


def services_of(state: State) -> dict[str, Service]:
    """By the key of the ConfigMap; only services that have a controller, for nobody else reads a table."""
    jobs: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner in state.owners.values():
        job_id = owner.metadata.labels.get(JOB_ID)
        if owner.kind == OWNER_KIND and job_id and owner.metadata.deletion_timestamp is None:
            jobs[owner.metadata.namespace, job_id].append(owner)
    found = {key: group for key, group in jobs.items() if any(_app(job) == CONTROLLER for job in group)}
    if not found:
        return {}
    doomed = {target.uid for r in state.recoveries.values() if r.open for target in r.spec.targets}
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in state.pods.values():
        ref = pod.metadata.controller
        if ref is not None and ref.kind == OWNER_KIND and not pod.terminating:
            pods[ref.uid].append(pod)
    names = Counter(job_id for _, job_id in found)
    services = (
        _service(state, namespace, job_id, sorted(group, key=lambda job: job.metadata.name), pods, doomed, names)
        for (namespace, job_id), group in sorted(found.items())
    )
    return {service.key: service for service in services}


def _service(
    state: State,
    namespace: str,
    job_id: str,
    jobs: Sequence[Owner],
    pods: Mapping[str, Sequence[Pod]],
    doomed: set[str],
    names: Mapping[str, int],
) -> Service:
    managers = tuple(job for job in jobs if _app(job) in (CONTROLLER, COORDINATOR))
    servers = [job for job in jobs if _app(job) == SERVER]
    held = state.published.get(f"{namespace}/{schema.PREFIX}{job_id}")
    known = schema.read_groups(held.metadata.annotations.get(schema.GROUPS, "") if held is not None else "")
    ids = schema.assign(known, tuple(job.metadata.name for job in servers))
    left_out: dict[str, str] = {}
    complete: list[tuple[Owner, str, str, Instance]] = []
    for job in servers:
        rings = state.rank_tables.get(f"{namespace}/{RINGS}{job.metadata.name}")
        labels = rings.metadata.labels if rings is not None else job.metadata.labels
        carried = [label for label in DEPLOY_SERVER_LABELS if label in labels]
        if len(carried) != 1:
            left_out[job.metadata.name] = _wrongly_labelled(job.metadata.name, carried, seen=rings is not None)
            continue
        present = pods.get(job.metadata.uid, ())
        if any(pod.metadata.uid in doomed for pod in present):
            continue
        if (why := _one_address(present)) is not None:
            left_out[job.metadata.name] = why
            continue
        found = instance_of(present, replicas(job), rings, state.heard)
        if found is not None:
            complete.append((job, carried[0], labels[carried[0]], found))

    def result(table: GlobalTable | None, why: str = "") -> Service:
        return Service(namespace, job_id, managers, table, why, ids, left_out)

    if not _NAME.fullmatch(job_id):
        remedy = "give its jobs one of lower-case letters, digits, '-' and '.'"
        return result(None, f"the jobID {job_id} makes no name of a ConfigMap: {remedy}")
    if names[job_id] > 1:
        return result(
            None, f"{names[job_id]} namespaces have a service of jobID {job_id}: its controller asks by it alone"
        )
    groups: list[Group] = []
    for app, number in ((COORDINATOR, schema.COORDINATORS), (CONTROLLER, schema.CONTROLLERS)):
        present = [p for job in managers if _app(job) == app for p in _standing(pods.get(job.metadata.uid, ()), doomed)]
        if not present:
            return result(None, f"no pod of {app} is there")
        if nameless := [pod.metadata.name for pod in present if not pod.status.pod_ip]:
            return result(None, f"pod {nameless[0]} of {app} has no address yet")
        present.sort(key=lambda pod: pod.metadata.name)
        groups.append(
            schema.group(
                number, tuple(Server(pod.status.host_ip or pod.node or "", pod.status.pod_ip or "") for pod in present)
            )
        )
    groups += _instances(complete, ids, left_out)
    listed = {job.metadata.name for job, *_ in complete} - left_out.keys()
    ids = msgspec.structs.replace(ids, listed=tuple(sorted({*ids.listed, *listed})))
    version = "1.2" if any(_is_a3(instance) for _, _, _, instance in complete) else "1.0"
    table = GlobalTable(version, "completed", tuple(groups))
    why = refused(table)
    return result(None, why) if why is not None else result(table)


def _instances(
    complete: Sequence[tuple[Owner, str, str, Instance]], ids: GroupIds, left_out: dict[str, str]
) -> list[Group]:
    """A group for each instance; or all in one, where instances are of one server. Who is of the other kind is left
    out: the reader knows one kind for a service."""
    if not complete:
        return []
    kind = complete[0][1]
    for job, label, _, instance in complete:
        if label != kind:
            left_out[job.metadata.name] = f"{job.metadata.name} carries {label}, others of its service {kind}"
        elif label == _BY_SERVER and len(instance.servers) != 1:
            left_out[job.metadata.name] = f"{job.metadata.name} carries {label} and has {len(instance.servers)} servers"
    listed = [item for item in complete if item[0].metadata.name not in left_out]
    if kind == _BY_GROUP:
        numbered = [
            schema.group(ids.ids[job.metadata.name], instance.servers, deploy, instance.super_pods)
            for job, _, deploy, instance in listed
        ]
        return sorted(numbered, key=lambda group: int(group.group_id))
    one_each = tuple(
        Server(s.server_id, s.server_ip, s.device, deploy, s.hardware_type)
        for _, _, deploy, instance in listed
        for s in instance.servers
    )
    super_pods = tuple(pod for _, _, _, instance in listed for pod in instance.super_pods)
    return [schema.group(schema.FIRST_INSTANCE, one_each, "", super_pods)] if one_each else []


def _standing(pods: Iterable[Pod], doomed: set[str]) -> list[Pod]:
    return [p for p in pods if p.status.phase not in ("Failed", "Succeeded") and p.metadata.uid not in doomed]


def _one_address(present: Sequence[Pod]) -> str | None:
    """Pods of one instance on the network of one host: the reader tells servers apart by nothing but their address."""
    first: dict[str, str] = {}
    for pod in _standing(present, set()):
        address, name = pod.status.pod_ip, pod.metadata.name
        if address and (other := first.setdefault(address, name)) != name:
            where = f"pods {other} and {name} have one address, {address} (hostNetwork on one node)"
            return f"{where}: take them off the host's network, or keep them on different nodes"
    return None


def _is_a3(instance: Instance) -> bool:
    return bool(instance.super_pods) or any(d.super_device_id for s in instance.servers for d in s.device)


def _app(job: Owner) -> str:
    return job.metadata.labels.get("app", "")


def _wrongly_labelled(name: str, carried: Sequence[str], *, seen: bool) -> str:
    if not seen:
        what = f"ConfigMap {RINGS}{name} is not there, or has no label {JOB_ID}, without which nobody sees it"
        return f"{what}; and the job itself does not carry exactly one of {_BY_GROUP} and {_BY_SERVER}: give it one"
    stands = "both labels" if carried else "neither of the labels"
    return f"ConfigMap {RINGS}{name} carries {stands} {_BY_GROUP} and {_BY_SERVER}: give it exactly one"
